import { Chat } from '../components/chat'

export const dynamic = 'force-dynamic' // each response has a nonce: see proxy.ts

export default function Page() {
  return <Chat />
}
