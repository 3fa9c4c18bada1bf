"""The OpenAI Responses API. Its stream events are the canonical vocabulary."""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import PassthroughRoute, Provider

PROVIDER: Final = Provider(
    title="OpenAI Responses",
    profile="projector.providers.openai_responses.responses_profile:ResponsesProfile",
    stage=lazy("projector.providers.openai_responses.responses_stage:OpenAIResponsesStage"),
    request_writer=lazy("projector.providers.openai_responses.responses_request:write_request"),
    recording=lazy("projector.providers.openai_responses.responses_recording:recording_shape"),
    telemetry_name="openai",
    upstream="projector.server.upstream.http_upstream:HTTPUpstream",
    request_path="/responses",
    models_path="/models",
    passthrough=PassthroughRoute(
        "responses",
        "/v1/responses",
        "input",
        "Create a response (Responses API).",
        "responses",
        request_reader=lazy("projector.providers.openai_responses.responses_request:read_request"),
    ),
)
