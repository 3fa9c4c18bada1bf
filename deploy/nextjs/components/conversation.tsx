'use client'

import { approvals, initialState, StreamError, type StreamState, type ToolItem } from 'public-stream-client'
import { useStream } from 'public-stream-client/react'
import type { Snapshot } from 'public-stream-client/store'
import { useCallback, useEffect, useRef, useState } from 'react'
import { change, newId, requestOf, type Approval, type Turn } from '../lib/conversations'
import { Answer, ENDS, endText } from './answer'
import { Composer } from './composer'

const NEAR_PX = 80
const UNAUTHORIZED = 401
const PATIENCE_MS = 120_000 // the client's own, until the first byte: another tab may be closed
const LONG_MS = 10_000 // a pause that a person notices: the server has asked for it

interface Props {
  id: string
  turns: Turn[]
  signInUrl: string | undefined
}

/** A conversation. Its last turn is a stream while that runs: this tab opened it, or joins it at its address. */
export function Conversation({ id, turns, signInUrl }: Props) {
  const last = turns.length - 1
  const [live, setLive] = useState<number>() // the turn that the stream belongs to
  const [before, setBefore] = useState(turns.length) // those after it are of this visit, in this tab or another
  const asked = useRef(-1)
  const joined = useRef<string>(undefined)
  const stream = useStream({
    url: '/api/chat',
    onOpen: ({ location }) => {
      if (location !== undefined && joined.current === location) return // without a store there is none
      joined.current = location
      changeTurn(asked.current, ({ key: _, ...turn }) => ({ ...turn, location })) // another tab may have added one
    },
  })
  const { state, error, isRunning, resume } = stream

  const changeTurn = useCallback(
    (at: number, changed: (turn: Turn) => Turn) => change(id, (all) => all.map((turn) => (turn === all.at(at) ? changed(turn) : turn))),
    [id],
  )

  // after a reload, or when another tab has asked; an answer that this tab has asked for is read to its end before
  const location = turns[last]?.location
  useEffect(() => {
    if (location === undefined || location === joined.current || isRunning) return
    joined.current = location
    setLive(last)
    resume(location)
  }, [location, last, isRunning, resume])

  // the page was left before the answer had an address: the server knows the request by its key; for an approval it
  // may have forgotten it, and a tool would run twice
  useEffect(() => {
    const left = turns[last]
    if (left?.key && left.state === undefined && !left.approval) begin(turns, left.key)
  }, [])

  const asking = live === undefined ? undefined : turns[live]
  const isRefused = asking !== undefined && asking.location === undefined && asking.state === undefined // other tabs wait for it
  const isLost = stream.connection === 'closed' && state.end === undefined && (isRefused || !canContinue(error))
  useEffect(() => {
    if (live === undefined || (state.end === undefined && !isLost)) return
    // a refused request has no use for its key; after a failure of a server its stream may be there, or still begin
    const isFree = error instanceof StreamError && error.code === 'http' && !error.isRetryable
    changeTurn(live, ({ location: _, key, ...turn }) => ({ ...turn, state, ...(key && !isFree && { key }) }))
  }, [live, state, error, isLost, changeTurn])

  function send(question: string, approval?: Approval): void {
    const key = newId()
    const next = [...turns, { question, key, ...(approval && { approval }) }]
    change(id, () => next)
    begin(next, key)
  }

  /** Sends the request for the last turn. */
  function begin(all: Turn[], idempotencyKey: string): void {
    asked.current = all.length - 1
    setLive(asked.current)
    stream.send(requestOf(all), { idempotencyKey })
  }

  const { stop: stopStream } = stream
  const stop = useCallback(() => {
    if (live !== undefined) changeTurn(live, ({ key: _, ...turn }) => ({ ...turn, isStopped: true }))
    stopStream()
  }, [live, changeTurn, stopStream])

  function retry(): void {
    end.current!.focus() // the button that had it goes
    if (trouble?.isLate) return void send(turns.findLast(({ approval }) => approval === undefined)?.question ?? '')
    if (location !== undefined && canContinue(error)) return void resume(location)
    const { key = newId() } = turns[last]!
    changeTurn(last, ({ question, approval }) => ({ question, key, ...(approval && { approval }) }))
    begin(turns, key)
  }

  function decide(item: ToolItem, approve: boolean): void {
    const { id: approvalId, responseId } = item
    end.current!.focus() // so do those
    send(`${approve ? 'Approved' : 'Declined'}: ${item.name}`, { id: approvalId, approve, ...(responseId && { responseId }) })
  }

  const isLive = live === last && last >= 0
  const shown = isLive ? state : (turns[last]?.state ?? initialState)
  const isElsewhere = !isLive && last >= before && turns[last]?.state === undefined // another tab waits for it
  useEffect(() => {
    if (!isElsewhere || location !== undefined) return
    const timer = setTimeout(() => setBefore(last + 1), PATIENCE_MS)
    return () => clearTimeout(timer)
  }, [isElsewhere, location, last])
  const trouble = last < 0 || isElsewhere ? undefined : troubleOf(shown, isLive ? stream : { connection: 'closed' }, turns[last]?.isStopped)
  const end = useFollowedEnd(turns.length)
  return (
    <>
      <div className="scroll" ref={end} tabIndex={0} role="region" aria-label="Messages">
        <ol className="turns">
          {turns.map((turn, n) => {
            const answer = n === live ? state : (turn.state ?? initialState)
            const failure = n === last || n === live ? undefined : troubleOf(answer, { connection: 'closed' }, turn.isStopped)?.text
            return (
              <li key={n}>
                <h2 className="question" dir="auto"><span className="hidden" dir="ltr">You: </span>{turn.question}</h2>
                <section className="answer" aria-label={`Answer ${n + 1}`} aria-busy={n === live && isRunning}>
                  <Answer state={answer} {...(n === last && !isRunning && { decide })} />
                  {failure && <p className="trouble">{failure}</p>}
                  {n === last && trouble && (
                    <p className="trouble">
                      {trouble.text}
                      {trouble.isSignedOut && signInUrl && <a href={signInUrl} target="_blank">Sign in</a>}
                      {trouble.canRetry && <button type="button" onClick={retry}>{trouble.isLate ? 'Ask again' : 'Try again'}</button>}
                    </p>
                  )}
                  {(n === live ? isRunning && answer.items.length === 0 && !trouble : n === last && isElsewhere) && <p className="soft dots">Waiting</p>}
                </section>
              </li>
            )
          })}
        </ol>
        {turns.length === 0 && <p className="empty soft">Ask something to begin.</p>}
      </div>
      <p className="hidden" role="status">{announcement(shown, isLive && isRunning, trouble?.text)}</p>
      <Composer isRunning={isRunning} send={send} stop={stop} />
    </>
  )
}

type Connection = Pick<Snapshot, 'connection' | 'error' | 'pause'>

interface Trouble {
  text: string
  canRetry: boolean
  isSignedOut?: boolean
  /** Whether the server does not know the request for approval any more that was answered. */
  isLate?: boolean
}

/** Returns what went wrong with an answer, and whether trying again may help. */
function troubleOf(state: StreamState, { connection, error, pause }: Connection, isStopped = false): Trouble | undefined {
  if (state.end?.kind === 'error') {
    return { text: state.end.error.message || endText(state), canRetry: state.end.error.is_retryable }
  }
  if (state.end !== undefined) return state.status === 'failed' ? { text: '', canRetry: true } : undefined
  const isStarted = state.streamId !== undefined
  if (connection === 'retrying') return { text: pauseText(isStarted, pause), canRetry: false }
  if (connection !== 'closed') return undefined
  if (isStopped) return { text: ENDS.cancelled, canRetry: true }
  if (isSignedOut(error)) return { text: SIGNED_OUT, canRetry: true, isSignedOut: true }
  const text = error instanceof Error && !isStarted ? error.message : 'The connection was lost before the answer was complete.'
  const isRefused = error instanceof StreamError && error.code === 'http' && !error.isRetryable
  const code = isRefused ? error.details.problem?.code : undefined
  return { text, canRetry: isStarted || !isRefused || AGAIN.has(code), isLate: code === 'unknown_response' }
}

/** Returns why there is a pause: what the server said, or that there is no connection. */
function pauseText(isStarted: boolean, pause: Connection['pause']): string {
  const isLong = pause !== undefined && pause.delayMs >= LONG_MS
  if (pause?.error.code === 'http' && (isLong || !isStarted)) {
    return `${pause.error.message} Trying again${isLong ? ` in ${Math.ceil(pause.delayMs / 1000)} s` : ''}…`
  }
  return isStarted ? 'The connection was lost. Trying to continue…' : 'No connection yet. Trying again…'
}

/** Returns what a screen reader is told: how the answer stands, not each of its words. */
function announcement(state: StreamState, isRunning: boolean, trouble: string | undefined): string {
  if (trouble) return trouble
  if (isRunning) return 'Answering.'
  if (approvals(state).length > 0) return 'The answer needs your approval.'
  return state.end === undefined ? '' : endText(state) || 'The answer is complete.'
}

/** Refusals of a request that refers to what the server has forgotten: a question that is asked anew is not refused. */
const AGAIN = new Set<string | undefined>(['unknown_response', 'events_gone', 'idempotency_key_reused'])

const SIGNED_OUT = 'You are signed out. Sign in, and then try again: your message is kept.'

const isSignedOut = (error: unknown): boolean => error instanceof StreamError && error.details.status === UNAUTHORIZED

/** Returns whether a stream may still be there after an error: its address is kept. */
const canContinue = (error: unknown): boolean => error instanceof StreamError && error.canResume

/** Returns a ref of an element that keeps its end in view while it grows, unless the person has scrolled away. */
function useFollowedEnd(turns: number) {
  const ref = useRef<HTMLDivElement>(null)
  const isFollowed = useRef(true)
  useEffect(() => {
    const element = ref.current!
    const onScroll = (): void => {
      isFollowed.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX
    }
    const growth = new ResizeObserver(() => {
      if (isFollowed.current) element.scrollTop = element.scrollHeight
    })
    element.addEventListener('scroll', onScroll, { passive: true })
    growth.observe(element.firstElementChild!)
    return () => {
      element.removeEventListener('scroll', onScroll)
      growth.disconnect()
    }
  }, [])
  useEffect(() => void (isFollowed.current = true), [turns])
  return ref
}
