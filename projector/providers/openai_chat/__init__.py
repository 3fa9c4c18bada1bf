"""Chat Completions of OpenAI and of the many servers with the same API.

`chat_stage` reads chunks, `chunk_fields` lists their members, `deltas` reads the deltas of a choice, `output` decides
which output item they belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from projector.providers.descriptor import InputTables, PassthroughRoute, Provider, ProviderStage

if TYPE_CHECKING:
    from projector.providers.model_request import ModelRequest
    from projector.providers.openai_chat.chat_profile import ChatProfile
    from projector.providers.recording_shape import RecordingShape


def _stage(profile: ChatProfile) -> ProviderStage:
    from projector.providers.openai_chat.chat_stage import OpenAIChatStage

    return OpenAIChatStage(profile)


def _write_request(request: ModelRequest, profile: ChatProfile) -> dict[str, Any]:
    from projector.providers.openai_chat.chat_request import write_request

    return write_request(request, profile)


def _profile() -> type[ChatProfile]:
    from projector.providers.openai_chat.chat_profile import ChatProfile

    return ChatProfile


def _recording() -> RecordingShape:
    from projector.providers.openai_chat.chat_recording import RECORDING

    return RECORDING


def _tables() -> InputTables:
    from projector.providers.openai_chat import chunk_fields

    return InputTables(
        read={"chunk": chunk_fields.CHUNK_READ, "choice": chunk_fields.CHOICE_READ, "delta": chunk_fields.DELTA_READ},
        dropped={
            "chunk": chunk_fields.CHUNK_DROPPED,
            "choice": chunk_fields.CHOICE_DROPPED,
            "delta": chunk_fields.DELTA_DROPPED,
        },
        finish_reasons={reason: status for reason, (status, _) in chunk_fields.FINISHES.items()},
    )


PROVIDER: Final = Provider(
    title="Chat Completions",
    stage=_stage,
    request_writer=_write_request,
    telemetry_name="openai",
    upstream="projector.server.upstream.openai_upstream:OpenAIUpstream",
    request_path="/chat/completions",
    passthrough=PassthroughRoute("chat_completions", "/v1/chat/completions", "messages"),
    profile=_profile,
    message_fields=("error",),
    recording=_recording,
    tables=_tables,
)
