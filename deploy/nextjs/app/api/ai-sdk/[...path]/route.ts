import { forward } from '../../../../lib/projector'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

/** What `useChat` of the AI SDK asks for, in the dialect `ai_sdk`: `api: '/api/ai-sdk/AGENT?level=7'`. */
async function pass(request: Request, { params }: { params: Promise<{ path: string[] }> }): Promise<Response> {
  const { path } = await params
  return forward(request, `/api/v1/ai-sdk/${path.map(encodeURIComponent).join('/')}${new URL(request.url).search}`)
}

export { pass as GET, pass as POST }
