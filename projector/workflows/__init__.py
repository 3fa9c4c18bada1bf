"""Workflows, without I/O."""
