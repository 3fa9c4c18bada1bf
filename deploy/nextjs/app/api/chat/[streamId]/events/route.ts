import { forward } from '../../../../../lib/projector'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

/** The events of a stream after `?after=`: how a page that was reloaded, or lost its connection, continues. */
export async function GET(request: Request, { params }: { params: Promise<{ streamId: string }> }): Promise<Response> {
  const { streamId } = await params
  return forward(request, `/api/v1/streams/${encodeURIComponent(streamId)}/events${new URL(request.url).search}`)
}
