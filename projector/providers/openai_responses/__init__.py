"""The OpenAI Responses API. Its stream events are the canonical vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from projector.providers.descriptor import PassthroughRoute, Provider, ProviderStage

if TYPE_CHECKING:
    from projector.providers.model_request import ModelRequest
    from projector.providers.recording_shape import RecordingShape


def _stage(_profile: None) -> ProviderStage:
    from projector.providers.openai_responses.responses_stage import OpenAIResponsesStage

    return OpenAIResponsesStage()


def _write_request(request: ModelRequest, _profile: None) -> dict[str, Any]:
    from projector.providers.openai_responses.responses_request import write_request

    return write_request(request)


def _recording() -> RecordingShape:
    from projector.providers.openai_responses.responses_recording import RECORDING

    return RECORDING


PROVIDER: Final = Provider(
    title="OpenAI Responses",
    stage=_stage,
    request_writer=_write_request,
    telemetry_name="openai",
    upstream="projector.server.upstream.openai_upstream:OpenAIUpstream",
    request_path="/responses",
    passthrough=PassthroughRoute("responses", "/v1/responses", "input"),
    recording=_recording,
)
