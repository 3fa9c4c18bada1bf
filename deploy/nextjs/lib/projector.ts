/**
 * Forwards requests to the projector: its address, API key, and the headers that pass.
 *
 * STREAM_SERVER_URL is its address, STREAM_SERVER_KEY a key of its `[auth.api_keys]`. Everyone who reaches a route that
 * calls `forward` uses this key: authenticate users first.
 */

const HEADERS_UP = ['accept', 'content-type', 'x-request-id', 'x-sticky', 'traceparent', 'tracestate']

/** Without `content-encoding` and `content-length`, because `fetch` decompresses the body. */
const HEADERS_DOWN = [
  'content-type',
  'cache-control',
  'retry-after',
  'x-accel-buffering',
  'x-content-type-options',
  'x-request-id',
  'x-stream-id',
]

/** Forwards a request and streams the response; a disconnect of the browser ends both. */
export async function forward(request: Request, path: string): Promise<Response> {
  const headers = pick(request.headers, HEADERS_UP)
  const key = process.env.STREAM_SERVER_KEY
  if (key) headers.set('authorization', `Bearer ${key}`)
  try {
    const answer = await fetch(new URL(path, process.env.STREAM_SERVER_URL ?? 'http://127.0.0.1:8000'), {
      method: 'POST',
      headers,
      body: await request.arrayBuffer(),
      cache: 'no-store',
      redirect: 'error',
      signal: request.signal,
    })
    return new Response(answer.body, { status: answer.status, headers: pick(answer.headers, HEADERS_DOWN) })
  } catch {
    return unavailable()
  }
}

function pick(from: Headers, names: string[]): Headers {
  const headers = new Headers()
  for (const name of names) {
    const value = from.get(name)
    if (value !== null) headers.set(name, value)
  }
  return headers
}

/** Returns the response if the projector is unavailable: a problem document like its own. */
function unavailable(): Response {
  const problem = {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: 'No server is available.',
    code: 'server_shutdown',
    is_retryable: true,
  }
  const headers = { 'content-type': 'application/problem+json', 'retry-after': '5' }
  return new Response(JSON.stringify(problem), { status: 503, headers })
}
