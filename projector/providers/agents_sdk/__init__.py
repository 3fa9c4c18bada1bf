"""Runs of the OpenAI Agents SDK as canonical events and host events.

The SDK is not imported: its objects are read by attribute. `run_stage` translates the events of a run, `failures`
maps the runner's exceptions.

`RunStage` is not a row of `PROVIDERS`, because a run is not bytes. Its output is written with `encode`, and read by a
pipeline of the provider `openai_responses` with `run=True` and `takes_host_events=True`.
"""

from __future__ import annotations

from projector.providers.agents_sdk.run_stage import RunStage, encode

__all__ = ["RunStage", "encode"]
