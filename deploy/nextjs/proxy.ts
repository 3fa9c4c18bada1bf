import { NextResponse, type NextRequest } from 'next/server'

const EVAL = process.env.NODE_ENV === 'development' ? " 'unsafe-eval'" : '' // for stack traces of React

/** Sends the page with a content security policy: scripts of this site alone, and images of answers as data. */
export function proxy(request: NextRequest): NextResponse {
  const nonce = btoa(crypto.randomUUID())
  const policy = [
    "default-src 'self'",
    `script-src 'self' 'nonce-${nonce}' 'strict-dynamic'${EVAL}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
  const headers = new Headers(request.headers)
  headers.set('content-security-policy', policy) // where Next.js finds the nonce of its own scripts
  const response = NextResponse.next({ request: { headers } })
  response.headers.set('content-security-policy', policy)
  return response
}

export const config = { matcher: ['/((?!api|_next/static|_next/image).*)'] }
