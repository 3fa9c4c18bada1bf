"""Reports of streams: logs, metrics, traces, the `on_terminal` hook."""
