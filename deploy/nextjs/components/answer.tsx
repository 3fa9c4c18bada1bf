'use client'

import {
  attachments,
  responseText,
  toolStatus,
  truncated,
  usage,
  withheld,
  type Item,
  type MessageItem,
  type ReasoningItem,
  type StreamState,
} from 'public-stream-client'
import { memo } from 'react'
import { Markdown } from './markdown'
import { ToolCard, type Decide } from './tool-card'

export const ENDS = { completed: '', refused: '', cancelled: 'Stopped.', incomplete: 'Incomplete', failed: 'The answer failed.' }
const REASONS: Record<string, string> = { max_output_tokens: 'the limit of tokens', content_filter: 'the content filter' }

interface Props {
  state: StreamState
  /** Without it, approvals cannot be answered: the conversation has gone on. */
  decide?: Decide
}

/** What a stream has brought so far. An item is rendered again only if it has changed. */
export function Answer({ state, decide }: Props) {
  const hasText = state.items.some((item) => item.kind === 'message')
  return (
    <>
      {state.items.map((item) => <Row key={item.id} item={item} state={state} decide={decide} />)}
      {!hasText && state.end !== undefined && <p dir="auto">{responseText(state)}</p>}
      <End state={state} />
    </>
  )
}

function Row({ item, state, decide }: Props & { item: Item }) {
  switch (item.kind) {
    case 'message':
      return <Message item={item} />
    case 'reasoning':
      return <Reasoning item={item} />
    case 'tool':
      return <ToolCard item={item} status={toolStatus(item, state)} decide={decide} isOver={state.end !== undefined} />
    default:
      return null
  }
}

const Message = memo(function Message({ item }: { item: MessageItem }) {
  return item.parts.map((part) => (
    <div key={part.index} className="markdown">
      <Markdown part={part} />
      {part.refusal !== '' && <p className="refusal" dir="auto">{part.refusal}</p>}
    </div>
  ))
})

const Reasoning = memo(function Reasoning({ item }: { item: ReasoningItem }) {
  const title = item.isDone ? 'Reasoning' : 'Thinking…'
  if (item.parts.length === 0) return item.isDone ? null : <p className="soft">{title}</p>
  return (
    <details className="card">
      <summary>{title}</summary>
      {item.parts.map((part) => <p key={part.index} dir="auto">{part.text}</p>)}
    </details>
  )
})

/** Returns how a stream ended; empty if its answer is complete. */
export function endText({ end, status, reason }: StreamState): string {
  if (end === undefined) return ''
  if (end.kind === 'error') return ENDS.failed
  const why = status === 'incomplete' && reason ? `: ${REASONS[reason] ?? reason}` : ''
  return `${ENDS[end.final.status]}${why}`
}

/** How the stream ended, and what was withheld; `Conversation` shows the text of a failure. */
function End({ state }: { state: StreamState }) {
  if (state.end === undefined) return null
  const held = withheld(state)
  const cut = truncated(state)
  const used = usage(state)?.total_tokens
  const parts = [
    state.end.kind === 'error' ? '' : endText(state),
    ...attachments(state).map((file) => `File: ${file.filename ?? file.object_id}`),
    held > 0 ? `Withheld in ${places(held)}` : '',
    cut > 0 ? `Shortened in ${places(cut)}` : '',
    used === undefined ? '' : `${used} tokens`,
  ].filter((part) => part !== '')
  return parts.length === 0 ? null : <p className="end soft">{parts.join(' · ')}</p>
}

const places = (count: number): string => `${count} ${count === 1 ? 'place' : 'places'}`
