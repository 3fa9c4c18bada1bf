/** Work once a frame: first all changes of the page, then its scrolling, so that the browser lays it out once. */

const NEAR_PX = 40;
const HIDDEN_MS = 50;

const steps = new Map<object, () => void>();
/** Elements whose end is kept in view -> whether the reader has it in view, and how far the page itself has scrolled. */
const followed = new Map<HTMLElement, { isAtEnd: boolean; top: number }>();
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
  for (const [element, one] of followed) {
    if (!one.isAtEnd) continue;
    element.scrollTop = element.scrollHeight;
    one.top = element.scrollTop;
  }
}

/** Keeps the end of an element in view while it grows, unless the reader has scrolled away. */
export function followEnd(element: HTMLElement): void {
  const one = { isAtEnd: true, top: 0 };
  followed.set(element, one);
  const onScroll = (): void => {
    // rows may have come since the page scrolled: only a reader scrolls upwards
    const isKept = one.isAtEnd && element.scrollTop >= one.top;
    one.isAtEnd = isKept || element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
  };
  element.addEventListener("scroll", onScroll, { passive: true });
  new ResizeObserver(() => atFrame(one, () => undefined)).observe(element); // a screen that is turned
}

/** Shows the end of an element, wherever the reader has scrolled to. */
export function toEnd(element: HTMLElement): void {
  const one = followed.get(element);
  if (one === undefined) return;
  Object.assign(one, { isAtEnd: true, top: 0 });
  atFrame(one, () => undefined);
}
