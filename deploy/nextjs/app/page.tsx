import { Chat } from '../components/chat'
import { signInUrl } from '../lib/auth'

export const dynamic = 'force-dynamic' // each response has a nonce: see proxy.ts

export default function Page() {
  return <Chat signInUrl={signInUrl()} />
}
