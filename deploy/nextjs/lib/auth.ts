/** The place of your authentication: every route handler asks it first. */

/**
 * Returns the credentials with which a request is forwarded, or undefined if its user is not signed in.
 *
 * As it is, everyone who reaches the page uses STREAM_SERVER_KEY. Read your session here. If users must not see each
 * other's streams, return a token of the user instead (`[auth.jwt]` of the projector): streams belong to their caller.
 */
export async function credentials(_request: Request): Promise<HeadersInit | undefined> {
  const key = process.env.STREAM_SERVER_KEY
  return key ? { authorization: `Bearer ${key}` } : {}
}
