"""OpenWOP v1 as we emit it: models of events and host documents, and the checker of a whole log.

Core events follow the protocol; our own event types and members begin with `public-sse`.
"""
