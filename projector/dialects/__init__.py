"""One table per wire vocabulary: what it says of each frame kind, and why not."""
