import type { Metadata, Viewport } from 'next'
import type { ReactNode } from 'react'
import './style.css'

export const metadata: Metadata = { title: 'Chat' }
export const viewport: Viewport = { width: 'device-width', initialScale: 1, interactiveWidget: 'resizes-content' }

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  )
}
