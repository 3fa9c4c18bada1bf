"""The stage of an upstream, by the API that its profile names."""

from __future__ import annotations

from projector.providers.gemini.chunk_stage import ChunkStage
from projector.providers.gemini.gemini_profile import GeminiProfile
from projector.providers.gemini.interaction_stage import InteractionStage


def stage_of(profile: GeminiProfile) -> ChunkStage | InteractionStage:
    """Return the stage of one response."""
    return InteractionStage() if profile.api == "interactions" else ChunkStage()
