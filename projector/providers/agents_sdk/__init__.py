"""Runs of the OpenAI Agents SDK as canonical events and events of the host.

What the SDK streams is the host's own: its objects are read by their attributes, and the SDK is imported nowhere here.
`stage` reads what a run streams, `vocabulary` lists it, `places` tells items with placeholder ids apart, `failures`
says what the runner's exceptions mean.

`RunStage` is no row of `PROVIDERS`, because a run is no bytes: what it gives is written with `encode`, and read by a
pipeline of the provider `openai_responses` with `run=True` and `takes_host_events=True`.
"""

from __future__ import annotations

from projector.providers.agents_sdk.stage import RunStage, encode

__all__ = ["RunStage", "encode"]
