/** Marks: what stands in a text in place of a value that the server withheld. */

/** Matches `<redacted>`, `<redacted:email>` for a class, and `[REDACTED:id]` for a value that the host registered. */
export const MARKS: RegExp = /<redacted(?::[a-z][a-z0-9_-]{1,63})?>|\[REDACTED:[\w.-]{1,64}\]/g;

/**
 * Returns a text with `‹redacted:email›` in place of `<redacted:email>`. Do this before Markdown is rendered: for a
 * renderer a mark is HTML, a link or part of one, which it may leave out. Positions of citations stay as they are.
 */
export const marksAsText = (text: string): string => text.replace(MARKS, (mark) => `‹${mark.slice(1, -1)}›`);
