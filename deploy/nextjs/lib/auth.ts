/** The place of your authentication: every route handler asks it first. */

/**
 * Returns the credentials with which a request is forwarded, or undefined if its user is not signed in.
 *
 * If STREAM_SERVER_COOKIE is set, the cookie of that name contains the user's token, for `[auth.jwt]` or
 * `[auth.api_keys]` of the projector: streams belong to their caller. Otherwise, everyone who reaches the page uses
 * STREAM_SERVER_KEY. Read your session here instead.
 */
export async function credentials(request: Request): Promise<HeadersInit | undefined> {
  const name = process.env.STREAM_SERVER_COOKIE
  const key = name ? cookie(request, name) : process.env.STREAM_SERVER_KEY
  if (key) return { authorization: `Bearer ${key}` }
  return name ? undefined : {}
}

/** Returns whether users cannot sign in, so requests have the key of this site. */
export const hasSiteKey = (): boolean => !process.env.STREAM_SERVER_COOKIE && !process.env.SIGN_IN_URL

/** Returns the address of your sign-in page, which the page shows to a user who is not signed in. */
export const signInUrl = (): string | undefined => process.env.SIGN_IN_URL

function cookie(request: Request, name: string): string | undefined {
  const pairs = (request.headers.get('cookie') ?? '').split('; ')
  const value = pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1)
  return value && /^[\w.~+/=-]+$/.test(value) ? value : undefined // the characters of a bearer token
}
