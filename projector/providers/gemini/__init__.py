"""Gemini: `streamGenerateContent` and Interactions, of Google AI and of Vertex.

`gemini_stage` chooses between `chunk_stage` and `interaction_stage`; both add to `gemini_output`, with `grounding` and
`partial_arguments`. `gemini_fields` lists what is read. `gemini_request` writes requests, with `gemini_contents`, or
`interaction_request`; `gemini_http` has headers, paths, and lists of models.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import ModelLists, Provider

PROVIDER: Final = Provider(
    title="Gemini",
    stage=lazy("projector.providers.gemini.gemini_stage:stage_of"),
    profile="projector.providers.gemini.gemini_profile:GeminiProfile",
    request_writer=lazy("projector.providers.gemini.gemini_request:write_request"),
    tables=lazy("projector.providers.gemini.gemini_fields:input_tables"),
    recording=lazy("projector.providers.gemini.gemini_fields:recording_shape"),
    telemetry_name="gcp.gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    headers=lazy("projector.providers.gemini.gemini_http:headers"),
    outgoing=lazy("projector.providers.gemini.gemini_http:outgoing"),
    models=ModelLists("/models", {"pageSize": "1000"}, lazy("projector.providers.gemini.gemini_http:listed_models")),
    errors=lazy("projector.providers.gemini.gemini_fields:error_members"),
    has_bare_json=True,
)
