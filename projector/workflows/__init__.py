"""Workflows, without I/O: what one is, how the input of a step is built, and what runs next given what has ended."""
