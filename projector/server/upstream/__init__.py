"""Requests to providers: connections, retries, recording."""
