"""Workflows over HTTP: their settings, a run that asks upstreams side by side, and its stream."""
