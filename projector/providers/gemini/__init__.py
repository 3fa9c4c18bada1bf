"""Gemini: `streamGenerateContent` and Interactions, of Google AI and of Vertex.

`chunk_stage` and `interaction_stage` read the two APIs; both add to `gemini_output`, with `grounding` and
`partial_arguments`. `gemini_fields` lists what is read. `request` writes requests, `api` sends them.
"""

from __future__ import annotations

from typing import Any, Final

from projector._registry import lazy, resolve
from projector.providers.descriptor import ModelLists, Provider, ProviderStage


def _stage(profile: Any) -> ProviderStage:
    """Return the stage of one response, by the API that the upstream is asked with."""
    api = "interaction_stage:InteractionStage" if profile.api == "interactions" else "chunk_stage:ChunkStage"
    stage: ProviderStage = resolve(f"projector.providers.gemini.{api}")()
    return stage


PROVIDER: Final = Provider(
    title="Gemini",
    stage=_stage,
    profile="projector.providers.gemini.api:GeminiProfile",
    request_writer=lazy("projector.providers.gemini.request:write_request"),
    tables=lazy("projector.providers.gemini.gemini_fields:input_tables"),
    recording=lazy("projector.providers.gemini.gemini_fields:recording_shape"),
    telemetry_name="gcp.gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    content=("contents", "input"),
    headers=lazy("projector.providers.gemini.api:headers"),
    outgoing=lazy("projector.providers.gemini.api:outgoing"),
    cursor=lazy("projector.providers.gemini.api:cursor"),
    models=ModelLists("/models", {"pageSize": "1000"}, lazy("projector.providers.gemini.api:listed_models")),
    errors=lazy("projector.providers.gemini.gemini_fields:error_members"),
    has_bare_json=True,
    demo={
        "search": "gemini-search",
        "file": "gemini-file-search",
        "code": "gemini-code-execution",
        "image": "gemini-image",
        "secret": "gemini-split-secret",
        "tool": "gemini-parallel-tools",
        "refusal": "gemini-safety",
        "reasoning": "gemini-thinking",
        "failure": "gemini-error",
        "truncated": "gemini-truncated",
        "text": "gemini-text",
    },
)
