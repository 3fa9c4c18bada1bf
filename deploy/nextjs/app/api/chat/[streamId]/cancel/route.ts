import { forward } from '../../../../../lib/projector'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

/** Ends a stream of ours with the text so far; not every host tells a handler that the browser left. */
export async function POST(request: Request, { params }: { params: Promise<{ streamId: string }> }): Promise<Response> {
  const { streamId } = await params
  return forward(request, `/api/v1/streams/${encodeURIComponent(streamId)}/cancel`)
}
