'use client'

import { useEffect, useState, useSyncExternalStore } from 'react'
import { conversations, newId, noConversations, remove, subscribe, type Turn } from '../lib/conversations'
import { Conversation } from './conversation'

const NO_TURNS: Turn[] = []

/** The page: past conversations, and the one that the address names (`#ID`), so that a reload or a second tab shows it. */
export function Chat({ signInUrl }: { signInUrl: string | undefined }) {
  const all = useSyncExternalStore(subscribe, conversations, noConversations)
  const id = useSyncExternalStore(onAddress, () => location.hash.slice(1), () => '')
  const [isListed, setListed] = useState(false)
  useEffect(() => {
    if (location.hash.length < 2) start()
  }, [id])
  useEffect(() => setListed(false), [id])
  return (
    <div className="page">
      <header>
        <button type="button" className="menu" aria-expanded={isListed} aria-controls="past" onClick={() => setListed(!isListed)}>
          Conversations
        </button>
        <h1>Chat</h1>
        <button type="button" onClick={start}>New</button>
      </header>
      <nav id="past" tabIndex={-1} aria-label="Conversations" className={isListed ? 'listed' : ''}>
        <ul>
          {all.map((one) => (
            <li key={one.id}>
              <a href={`#${one.id}`} dir="auto" aria-current={one.id === id ? 'page' : undefined}>{one.turns[0]?.question}</a>
              <button type="button" aria-label={`Delete: ${one.turns[0]?.question}`} onClick={() => drop(one.id, id)}>×</button>
            </li>
          ))}
        </ul>
        {all.length === 0 && <p className="soft">Your conversations are listed here.</p>}
      </nav>
      <main>
        <Conversation key={id} id={id} turns={all.find((one) => one.id === id)?.turns ?? NO_TURNS} signInUrl={signInUrl} />
      </main>
    </div>
  )
}

function onAddress(listener: () => void): () => void {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

/** Shows a new conversation, which is listed once it has a turn. */
function start(): void {
  location.replace(`#${newId()}`)
}

function drop(id: string, current: string): void {
  document.getElementById('past')!.focus() // the button that had it goes
  remove(id)
  if (id === current) start()
}
