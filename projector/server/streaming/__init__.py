"""Streams of responses: sessions, writers, deadlines, limits."""
