/** What was withheld from a text, as the page shows it. */

import { marksAsText } from 'public-stream-client'

/** A mark after `marksAsText`; the group keeps it when a text is split. */
const SHOWN = /(‹(?:redacted|REDACTED)(?::[\w.-]+)?›)/

/** Returns a text in pieces: every second one is a mark. */
export const atMarks = (text: string): string[] => marksAsText(text).split(SHOWN)

/** Returns what a mark stands for: `[email withheld]`, or `[withheld]` if it names nothing; copied and printed text has no colour. */
export const nameOf = (mark: string): string => `[${mark.slice('‹redacted:'.length, -1).replaceAll('_', ' ')} withheld]`.replace('[ ', '[')
