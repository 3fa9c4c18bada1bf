import { forward } from '../../../lib/projector'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

/** A stream for `{"message": "..."}`. */
export function POST(request: Request): Promise<Response> {
  return forward(request, `/api/v1/chat/stream${new URL(request.url).search}`)
}
