/**
 * Cuts Markdown that grows into blocks, of which only the last one changes: the others are not parsed again. A block
 * ends at an empty line, but not within a list, a quotation or a fence of code; a long list ends between two entries.
 * Definitions of links and footnotes are known in their own block only.
 */

const LONG_CHARS = 2_000
const FENCE = /^ {0,3}(`{3,}|~{3,})/
const ENTRY = /^(?:[-*+]|\d{1,9}[.)])\s/
const ENTRY_CHARS = 12 // a shorter line may become an entry when it grows
const NESTS = /^(?:[-*+]\s|\d{1,9}[.)]\s|>)/

export interface Block {
  /** Position in the text, in UTF-16. */
  start: number
  text: string
}

/** Returns a function that cuts a text, faster if the text begins with the one before. */
export function blockCutter(): (text: string) => Block[] {
  let settled: Block[] = []
  let prefix = ''
  return (text) => {
    if (!text.startsWith(prefix)) [settled, prefix] = [[], '']
    const blocks = cut(text, prefix.length)
    const growing = blocks.pop()
    if (blocks.length > 0) {
      settled = [...settled, ...blocks]
      prefix = text.slice(0, growing!.start)
    }
    return growing === undefined ? settled : [...settled, growing]
  }
}

function cut(text: string, from: number): Block[] {
  const starts = [from]
  let fence = ''
  let isAfterEmpty = false
  for (let at = from; at < text.length; ) {
    const newline = text.indexOf('\n', at)
    const end = newline < 0 ? text.length : newline
    const line = text.slice(at, end)
    const start = starts.at(-1)!
    if (at > start && fence === '' && /^\S/.test(line) && (newline >= 0 || line.length > ENTRY_CHARS)) {
      const nests = NESTS.test(text.slice(start, start + ENTRY_CHARS))
      const isNew = isAfterEmpty && !(nests && NESTS.test(line))
      if (isNew || (at - start > LONG_CHARS && ENTRY.test(line))) starts.push(at)
    }
    const mark = FENCE.exec(line)?.[1] ?? ''
    if (fence === '') fence = mark
    else if (mark.startsWith(fence)) fence = ''
    isAfterEmpty = line.trim() === ''
    at = end + 1
  }
  return starts.map((start, n) => ({ start, text: text.slice(start, starts[n + 1]) }))
}

/** Returns the code of a fence that is still open: it needs no parser. */
export function openFence(text: string): string | undefined {
  const mark = FENCE.exec(text)?.[1]
  const firstEnd = text.indexOf('\n')
  if (mark === undefined || firstEnd < 0) return undefined
  return new RegExp(`\\n {0,3}${mark[0]}{${mark.length},}[ \\t]*(?:\\n|$)`).test(text) ? undefined : text.slice(firstEnd + 1)
}
