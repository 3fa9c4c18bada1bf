'use client'

import { useEffect, useRef, useState, useSyncExternalStore, type KeyboardEvent, type SubmitEvent } from 'react'

const never = () => () => {}

interface Props {
  isRunning: boolean
  send: (question: string) => void
  stop: () => void
}

/** The form: Enter sends, Shift+Enter starts a line, Escape stops. The button keeps its place, and so the focus. */
export function Composer({ isRunning, send, stop }: Props) {
  const [text, setText] = useState('')
  const field = useRef<HTMLTextAreaElement>(null)
  const question = text.trim()
  // the server's HTML is there before this component is: what was typed or sent until then would be lost
  const isReady = useSyncExternalStore(never, () => true, () => false)

  useEffect(() => {
    if (!isRunning) return
    const onEscape = (event: globalThis.KeyboardEvent): void => void (event.key === 'Escape' && stop())
    document.addEventListener('keydown', onEscape)
    return () => document.removeEventListener('keydown', onEscape)
  }, [isRunning, stop])

  function submit(event?: SubmitEvent): void {
    event?.preventDefault()
    if (isRunning) return stop()
    if (question === '') return field.current?.focus()
    send(question)
    setText('')
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    if (!isRunning) submit()
  }

  return (
    <form className="composer" onSubmit={submit}>
      <label className="hidden" htmlFor="question">Your message</label>
      <textarea
        id="question"
        ref={field}
        rows={1}
        dir="auto"
        autoFocus
        readOnly={!isReady}
        placeholder="Ask something"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <button type="submit" className="primary" disabled={!isReady}>{isRunning ? 'Stop' : 'Send'}</button>
    </form>
  )
}
