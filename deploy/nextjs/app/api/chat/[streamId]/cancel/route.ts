import { forward } from '../../../../../lib/projector'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

/** Cancels a stream. Needed because not every host reports the disconnect of a browser to a handler. */
export async function POST(request: Request, { params }: { params: Promise<{ streamId: string }> }): Promise<Response> {
  const { streamId } = await params
  return forward(request, `/api/v1/streams/${encodeURIComponent(streamId)}/cancel`)
}
