"""Untrusted values in, Clean values out: the only place that may make them."""
