"""The shell: the only place that waits, reads a clock or opens a socket."""
