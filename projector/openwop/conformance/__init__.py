"""Workflows of configured nodes (RFC 0023, RFC 0024): for the conformance suite only, not for production."""
