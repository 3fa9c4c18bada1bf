"""One stage per provider: its messages become canonical events."""
