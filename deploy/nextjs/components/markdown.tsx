'use client'

import { marksAsText, type Citation, type MessagePart } from 'public-stream-client'
import { createContext, memo, useContext, useEffect, useMemo, useState, type ReactNode } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { blockCutter, openFence, type Block as BlockOfText } from '../lib/blocks'
import { marksOf, remarkCitations, type Mark } from '../lib/citations'

const FRAME_CHARS = 600
const FIRST_CHARS = 60 // the first frame compiles the parser
const GROUP = 32
const Citations = createContext<readonly Citation[]>([])

/** The text of a message: its Markdown without HTML, with citations in place and their sources below. */
export function Markdown({ part }: { part: MessagePart }) {
  const [cut] = useState(blockCutter)
  const marks = useMemo(() => marksOf(part), [part])
  const order = marks.map(({ index }) => index).join()
  const cited = useMemo(() => order === '' ? [] : order.split(',').map((n) => part.citations[Number(n)]!), [part.citations, order])
  const blocks = cut(part.text.slice(0, useRevealed(part.text.length)))
  const groups = Array.from({ length: Math.ceil(blocks.length / GROUP) }, (_, n) => blocks.slice(n * GROUP, (n + 1) * GROUP))
  return (
    <Citations value={cited}>
      {groups.map((group, n) => <Group key={n} blocks={group} marks={marks} />)}
      {cited.length > 0 && <Sources citations={cited} />}
    </Citations>
  )
}

interface GroupProps {
  blocks: readonly BlockOfText[]
  marks: readonly Mark[]
}

/** Blocks that are compared as one, so that a frame of a long answer does not cost more than one of a short one. */
const Group = memo(
  function Group({ blocks, marks }: GroupProps) {
    return blocks.map(({ start, text }) => {
      const own = marks.filter(({ at }) => at > start && at <= start + text.length)
      return <Block key={start} text={text} marks={own.map(({ at, number }) => `${at - start}:${number}`).join()} />
    })
  },
  (old, { blocks, marks }) => old.blocks.length === blocks.length && old.blocks.at(-1) === blocks.at(-1) && isSame(old.marks, marks),
)

const isSame = (some: readonly Mark[], others: readonly Mark[]): boolean =>
  some.length === others.length && some.every(({ at, number }, n) => at === others[n]!.at && number === others[n]!.number)

/** Returns how much of a text to show: what has arrived, but no more in one frame than can be parsed in one. */
function useRevealed(length: number): number {
  const [revealed, setRevealed] = useState(0)
  const room = Math.min(FRAME_CHARS, FIRST_CHARS + revealed)
  const shown = Math.min(revealed + room, length)
  useEffect(() => {
    if (shown === length && shown - revealed < room / 2) return
    const frame = requestAnimationFrame(() => setRevealed(shown))
    return () => cancelAnimationFrame(frame)
  }, [shown, revealed, room, length])
  return shown
}

/** A block is parsed again only if its own text or its own citations change; `marks` is a text to be comparable. */
const Block = memo(function Block({ text, marks }: { text: string; marks: string }) {
  const shown = marksAsText(text) // of the same length
  const code = openFence(shown)
  if (code !== undefined) return <pre><code>{code}</code></pre>
  return (
    <ReactMarkdown
      components={COMPONENTS}
      remarkPlugins={[remarkGfm, [remarkCitations, { marks: marks === '' ? [] : marks.split(',').map(markOf) }]]}
      urlTransform={safeUrl}
    >
      {shown}
    </ReactMarkdown>
  )
})

function markOf(text: string): Mark {
  const [at, number] = text.split(':').map(Number)
  return { at: at!, number: number! }
}

/** Only addresses of other sites: a relative one would be a request to this one. */
const safeUrl = (url: string): string => (/^(?:https?|mailto):/i.test(url) ? url : '')

/** A link that tells nothing to its target. Images are links too: loading them would tell their server what it was sent. */
export function Outside({ href, children, ...rest }: { href: string | undefined; children: ReactNode; [name: string]: unknown }) {
  if (!href || safeUrl(href) === '') return <span {...rest}>{children}</span>
  return <a {...rest} href={href} target="_blank" rel="noopener noreferrer nofollow">{children}</a>
}

function Cite({ number }: { number: number }) {
  const citation = useContext(Citations)[number - 1]
  if (citation === undefined) return null
  const name = titleOf(citation)
  return (
    <sup className="cite">
      <Outside href={urlOf(citation)} title={name} aria-label={`Source ${number}: ${name}`}>{number}</Outside>
    </sup>
  )
}

const COMPONENTS: Components = {
  a: ({ href, children }) => <Outside href={href}>{children}</Outside>,
  img: ({ src, alt }) => <Outside href={typeof src === 'string' ? src : undefined}>{alt || 'Image'}</Outside>,
  cite: ({ node }) => <Cite number={Number(node?.properties.dataNumber)} />,
  table: ({ dir, children }) => <div className="wide" dir={dir} tabIndex={0} role="region" aria-label="Table"><table>{children}</table></div>,
}

const Sources = memo(function Sources({ citations }: { citations: readonly Citation[] }) {
  return (
    <ol className="sources" aria-label="Sources">
      {citations.map((citation, n) => (
        <li key={n}><Outside href={urlOf(citation)}>{titleOf(citation)}</Outside></li>
      ))}
    </ol>
  )
})

const urlOf = (citation: Citation): string | undefined => (citation.type === 'url_citation' ? citation.url : undefined)

const titleOf = (citation: Citation): string =>
  citation.type === 'url_citation'
    ? (citation.title ?? citation.url ?? 'Source')
    : (citation.filename ?? citation.file_id ?? 'File')
