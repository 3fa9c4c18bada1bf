/** Conversations in `localStorage`, shared by the tabs of a browser. Replace this file to keep them on your server. */

import { responseText, type StreamState } from 'public-stream-client'

export interface Approval {
  id: string
  approve: boolean
  responseId?: string
}

export interface Turn {
  /** What the person wrote, or decided. */
  question: string
  approval?: Approval
  /** `Idempotency-Key` of the request until its stream is known: one that is sent again is not answered and paid twice. */
  key?: string
  /** Address of the stream, until it has ended. */
  location?: string
  /** The answer, once its stream has ended or was lost. */
  state?: StreamState
  /** Whether the person stopped the answer, which may have ended before the server said so. */
  isStopped?: boolean
}

export interface Conversation {
  id: string
  changedAt: number
  turns: Turn[]
}

const PREFIX = 'conversation:'
const MOST_TURNS = 20 // of the history that is sent with a question
const listeners = new Set<() => void>()
let cached: Conversation[] | undefined

/** Returns a new ID; `crypto.randomUUID` needs HTTPS. */
export const newId = (): string => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`

/** Returns the conversations, the newest first. The list is the same object until one of them changes. */
export function conversations(): Conversation[] {
  const kept = storage()
  cached ??= Object.keys(kept ?? {})
    .filter((key) => key.startsWith(PREFIX))
    .flatMap((key) => parsed(kept?.getItem(key) ?? null))
    .sort((a, b) => b.changedAt - a.changedAt)
  return cached
}

/** Returns nothing if the browser forbids storage: conversations then end with the page. */
function storage(): Storage | undefined {
  try {
    return localStorage
  } catch {
    return undefined
  }
}

const NONE: Conversation[] = []
export const noConversations = (): Conversation[] => NONE

export function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (listeners.size === 1) addEventListener('storage', reload)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) removeEventListener('storage', reload)
  }
}

/** Changes the turns of a conversation; a new one is created, if it has any: another tab may have deleted it. */
export function change(id: string, turnsOf: (turns: Turn[]) => Turn[]): void {
  const old = conversations().find((one) => one.id === id)
  const changed: Conversation = { id, changedAt: Date.now(), turns: turnsOf(old?.turns ?? []) }
  if (changed.turns.length === 0) return
  cached = [changed, ...conversations().filter((one) => one !== old)]
  store(changed)
  tell()
}

export function remove(id: string): void {
  cached = conversations().filter((one) => one.id !== id)
  storage()?.removeItem(PREFIX + id)
  tell()
}

/** Returns the request for the last turn: a decision, or a question with the texts before it. */
export function requestOf(turns: Turn[]): object {
  const { question, approval } = turns.at(-1)!
  if (approval !== undefined) {
    const { id, approve, responseId } = approval
    const answer = { type: 'mcp_approval_response', approval_request_id: id, approve }
    return { input: [answer], ...(responseId !== undefined && { previous_response_id: responseId }) }
  }
  const input = turns.slice(-MOST_TURNS - 1, -1).flatMap((turn) => {
    const content = turn.state === undefined ? '' : responseText(turn.state)
    return content === '' ? [] : [{ role: 'user', content: turn.question }, { role: 'assistant', content }]
  })
  return input.length === 0 ? { message: question } : { input: [...input, { role: 'user', content: question }] }
}

/** Writes a conversation without its images, which are too large. Without space the oldest ones are removed. */
function store(conversation: Conversation): void {
  const text = JSON.stringify(conversation, (key, value) => (key === 'images' ? [] : value))
  const kept = storage()
  for (;;) {
    try {
      kept?.setItem(PREFIX + conversation.id, text)
      return
    } catch {
      const oldest = conversations().at(-1)
      if (oldest === undefined || oldest.id === conversation.id) return // storage is full of others
      kept?.removeItem(PREFIX + oldest.id)
      cached = conversations().slice(0, -1)
    }
  }
}

function parsed(text: string | null): Conversation[] {
  try {
    const value = JSON.parse(text ?? '') as Conversation
    return Array.isArray(value.turns) ? [value] : []
  } catch {
    return []
  }
}

function reload(): void {
  cached = undefined
  tell()
}

const tell = (): void => listeners.forEach((listener) => listener())
