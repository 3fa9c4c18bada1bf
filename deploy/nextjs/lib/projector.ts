/** Forwards requests to the projector at STREAM_SERVER_URL, with the headers that pass. */

import { credentials, hasSiteKey } from './auth'

const HEADERS_UP = [
  'accept',
  'content-type',
  'idempotency-key',
  'last-event-id',
  'x-request-id',
  'traceparent',
  'tracestate',
]

/** Without `content-encoding` and `content-length`, because `fetch` decompresses the body. */
const HEADERS_DOWN = [
  'content-type',
  'cache-control',
  'retry-after',
  'x-should-retry',
  'x-vercel-ai-ui-message-stream',
  'incremental',
  'x-accel-buffering',
  'x-content-type-options',
  'x-request-id',
  'x-stream-id',
]

/** Forwards a request and streams the response; a disconnect of the browser ends both. */
export async function forward(request: Request, path: string): Promise<Response> {
  const known = await credentials(request)
  if (known === undefined) return problem(401, 'Unauthorized', 'Sign in first.', { code: 'unauthenticated', is_retryable: false })
  const headers = pick(request.headers, HEADERS_UP)
  new Headers(known).forEach((value, name) => headers.set(name, value))
  const server = process.env.STREAM_SERVER_URL ?? 'http://127.0.0.1:8000'
  try {
    const answer = await fetch(new URL(path, server), {
      method: request.method,
      headers,
      ...(request.method === 'POST' && { body: await request.arrayBuffer() }),
      cache: 'no-store',
      redirect: 'error',
      signal: request.signal,
    })
    if (answer.status === 401 && hasSiteKey()) return refused(server, headers.has('authorization'))
    const down = pick(answer.headers, HEADERS_DOWN)
    const stream = answer.headers.get('location')?.split('/').pop()
    if (stream) down.set('location', `/api/chat/${stream}`) // where this site has its events
    return new Response(answer.body, { status: answer.status, headers: down })
  } catch {
    if (!request.signal.aborted) console.error(noProjector(server))
    const about = { code: 'server_shutdown', is_retryable: true }
    return problem(503, 'Service Unavailable', 'No server is available.', about, { 'retry-after': '5' })
  }
}

const noProjector = (server: string): string =>
  /^https?:\/\//.test(server)
    ? `There is no projector at ${server} (STREAM_SERVER_URL).`
    : `STREAM_SERVER_URL: expected http:// or https:// before ${server}.`

/** Returns the answer to a request with a key that the projector refused: its user cannot sign in to change that. */
function refused(server: string, hasKey: boolean): Response {
  const unset = `STREAM_SERVER_KEY is not set, and the projector at ${server} needs it.`
  console.error(hasKey ? `The projector at ${server} refused STREAM_SERVER_KEY.` : unset)
  const about = { code: 'key_refused', is_retryable: false }
  return problem(502, 'Bad Gateway', 'The server does not accept this page. The log of Next.js has the reason.', about)
}

function pick(from: Headers, names: string[]): Headers {
  const headers = new Headers()
  for (const name of names) {
    const value = from.get(name)
    if (value !== null) headers.set(name, value)
  }
  return headers
}

/** Returns a problem document like those of the projector. */
function problem(status: number, title: string, detail: string, about: object, headers: HeadersInit = {}): Response {
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, ...about })
  return new Response(body, { status, headers: { 'content-type': 'application/problem+json', ...headers } })
}
