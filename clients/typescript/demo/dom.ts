/** Elements without a framework. Text is always set as text, never as HTML. */

import { MARKS } from "../src/index.js";

type Child = Node | string | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  about: Record<string, string | boolean | (() => void)> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

export const byId = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;

/** Returns a text in which what was withheld is marked. */
export function marked(text: string): Node[] {
  return text
    .split(MARKS)
    .flatMap((piece, n): Node[] => [...(n > 0 ? [h("mark", { title: "withheld" }, "withheld")] : []), document.createTextNode(piece)]);
}

/** A block that scrolls can be reached with the keyboard; one without an overflow is no stop. */
const overflow = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollHeight > target.clientHeight) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});

/** Returns a text with its line breaks, in a named block. */
export function block(label: string, text: string): HTMLElement {
  const element = h("pre", { role: "group", "aria-label": label }, ...marked(text));
  overflow.observe(element);
  return element;
}

/** Returns a text in which some ranges are marked. */
export function withRanges(text: string, ranges: readonly (readonly [number, number])[]): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  for (const [start, end] of ranges) {
    nodes.push(document.createTextNode(text.slice(at, start)), h("mark", { title: "never leaves the server" }, text.slice(start, end)));
    at = end;
  }
  return [...nodes, document.createTextNode(text.slice(at))];
}
