"""Provider bytes in, browser-safe bytes out. See `projector.pipeline` for the whole, `docs/architecture.md` for the map."""
