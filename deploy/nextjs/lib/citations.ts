/** Citations in place: positions in the Markdown of a message become elements of its tree, so they cannot break it. */

import type { Html, Nodes, Parents, PhrasingContent, Text } from 'mdast'
import { segments, type Citation, type MessagePart } from 'public-stream-client'
import { atMarks, nameOf } from './marks'

/** The end of a citation, in UTF-16, and its number on the page. */
export interface Mark {
  at: number
  number: number
}

/** A mark, and the index of its citation, which may have arrived in another order. */
interface Place extends Mark {
  index: number
}

/** Returns where the citations of a part are shown, after the text that they support; numbers are in reading order. */
export function marksOf(part: MessagePart): Place[] {
  const ends = new Map<Citation, number>()
  let at = 0
  for (const { text, citations } of segments(part)) {
    at += text.length
    for (const citation of citations) ends.set(citation, at)
  }
  const places = part.citations.map((citation, index) => ({ at: ends.get(citation) ?? at, index }))
  return places.sort((a, b) => a.at - b.at).map((place, n) => ({ ...place, number: n + 1 }))
}

/** A plugin of remark that inserts `<cite>` with the number of each mark, marks what was withheld, and directs each block. */
export function remarkCitations({ marks }: { marks: readonly Mark[] }) {
  return (tree: Nodes): void => {
    markWithheld(tree)
    if ('children' in tree) for (const block of tree.children) if (block.type !== 'code') block.data = { hProperties: { dir: 'auto' } }
    for (const mark of [...marks].sort((a, b) => b.at - a.at || b.number - a.number)) insert(tree, mark)
  }
}

/** Puts elements into the place of marks, which are text in Markdown; those of code stay text. */
function markWithheld(node: Nodes): void {
  if (!('children' in node)) return
  for (let index = node.children.length - 1; index >= 0; index--) {
    const child = node.children[index]!
    if (child.type === 'text') node.children.splice(index, 1, ...(piecesOf(child) as never[]))
    else markWithheld(child)
  }
}

/** Returns a text in pieces around its marks, with their positions if it has no escapes. A text beside an address within brackets has none. */
function piecesOf(whole: Text): PhrasingContent[] {
  const pieces = atMarks(whole.value)
  if (pieces.length === 1) return [whole]
  const { position } = whole
  let at = position?.start.offset ?? 0
  const isPlain = position?.end.offset === at + whole.value.length
  return pieces.map((piece, n) => {
    const offset = at
    at += piece.length
    const own = isPlain ? { start: { ...position.start, offset }, end: { ...position.end, offset: at } } : position
    return { ...(n % 2 === 0 ? text(piece) : element('mark', nameOf(piece), {})), ...(own && { position: own }) } as PhrasingContent
  })
}

/** Inserts an element at a position of the text, or after the code, the link or the mark that contains it. */
function insert(tree: Nodes, { at, number }: Mark): void {
  const found = leafBefore(tree, at)
  if (found === undefined) return
  const { parent, index } = found
  const leaf = parent.children[index]!
  const cite = element('cite', String(number), { dataNumber: number })
  const start = leaf.position?.start.offset ?? 0
  const isPlain = leaf.type === 'text' && !leaf.data && leaf.position?.end.offset === start + leaf.value.length
  if (isPlain && at < start + leaf.value.length) {
    const [before, after] = [leaf.value.slice(0, at - start), leaf.value.slice(at - start)]
    const position = { start: leaf.position!.start, end: { ...leaf.position!.end, offset: at } }
    parent.children.splice(index, 1, ...([{ type: 'text', value: before, position }, cite, text(after)] as never[]))
  } else {
    parent.children.splice(index + 1, 0, cite as never)
  }
}

/** Returns the last leaf that starts before a position; a link is one too, as an element within it could not be a link. */
function leafBefore(node: Nodes, at: number): { parent: Parents; index: number } | undefined {
  if (!('children' in node)) return undefined
  for (let index = node.children.length - 1; index >= 0; index--) {
    const child = node.children[index]!
    const start = child.position?.start.offset
    if (start === undefined || start >= at) continue
    const isLeaf = !('children' in child) || child.type === 'link'
    return isLeaf ? { parent: node as Parents, index } : leafBefore(child, at)
  }
  return undefined
}

const text = (value: string): Text => ({ type: 'text', value })

const element = (hName: string, value: string, hProperties: Record<string, unknown>): Text | Html | PhrasingContent =>
  ({ type: 'text', value, data: { hName, hProperties, hChildren: [text(value)] } }) as Text
