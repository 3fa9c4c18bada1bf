/** Work once a frame: first all changes of the page, then its scrolling, so that the browser lays it out once. */

const NEAR_PX = 40;
const HIDDEN_MS = 50;

const steps = new Map<object, () => void>();
/** Elements whose end is kept in view -> whether it was in view when the reader last scrolled. */
const followed = new Map<HTMLElement, boolean>();
let isScheduled = false;

/** Calls back at the next frame; of several calls with the same key, the last one counts. */
export function atFrame(key: object, step: () => void): void {
  steps.set(key, step);
  if (isScheduled) return;
  isScheduled = true;
  if (document.hidden) setTimeout(run, HIDDEN_MS);
  else requestAnimationFrame(run);
}

function run(): void {
  isScheduled = false;
  const due = [...steps.values()];
  steps.clear();
  for (const step of due) step();
  for (const [element, isAtEnd] of followed) if (isAtEnd) element.scrollTop = element.scrollHeight;
}

/** Keeps the end of an element in view while it grows, unless the reader has scrolled away. */
export function followEnd(element: HTMLElement): void {
  followed.set(element, true);
  const onScroll = (): void => {
    followed.set(element, element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX);
  };
  element.addEventListener("scroll", onScroll, { passive: true });
}

/** Shows the end of an element, wherever the reader has scrolled to. */
export function toEnd(element: HTMLElement): void {
  followed.set(element, true);
  atFrame(element, () => undefined);
}
