"""A conversation in neutral terms: every API is read into it, and every provider is asked from it."""
