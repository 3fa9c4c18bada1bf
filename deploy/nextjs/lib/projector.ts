/**
 * The way to the projector: where it is, whose key it is shown, and which headers pass.
 *
 * STREAM_SERVER_URL is its address, STREAM_SERVER_KEY a key of its `[auth.api_keys]`. The key stays on this server, so
 * whoever reaches a route that calls `forward` can use it: ask who is there before you do.
 */

const HEADERS_UP = ['accept', 'content-type', 'x-request-id', 'x-sticky', 'traceparent', 'tracestate']

/** Neither `content-encoding` nor `content-length`: `fetch` has undone the one, and then the other is wrong. */
const HEADERS_DOWN = [
  'content-type',
  'cache-control',
  'retry-after',
  'x-accel-buffering',
  'x-content-type-options',
  'x-request-id',
  'x-stream-id',
]

/** Answers a request with what the projector answers, as it comes; the browser's leaving ends both. */
export async function forward(request: Request, path: string): Promise<Response> {
  const headers = passed(request.headers, HEADERS_UP)
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
    return new Response(answer.body, { status: answer.status, headers: passed(answer.headers, HEADERS_DOWN) })
  } catch {
    return away()
  }
}

function passed(from: Headers, names: string[]): Headers {
  const headers = new Headers()
  for (const name of names) {
    const value = from.get(name)
    if (value !== null) headers.set(name, value)
  }
  return headers
}

/** The projector does not answer: a problem like its own, so that a page reads one kind. */
function away(): Response {
  const problem = {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: 'No server answers.',
    code: 'server_shutdown',
    is_retryable: true,
  }
  const headers = { 'content-type': 'application/problem+json', 'retry-after': '5' }
  return new Response(JSON.stringify(problem), { status: 503, headers })
}
