"""What callers may use, and how much: rights, rate limits."""
