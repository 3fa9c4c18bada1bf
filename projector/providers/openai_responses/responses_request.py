"""The body of a request to the Responses API."""

from __future__ import annotations

from typing import Final

from projector.providers.model_request import Body, ModelRequest, ParameterPaths
from projector.providers.openai_responses.response_items import items_of

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"

PARAMETERS: Final[ParameterPaths] = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


def write_request(request: ModelRequest, _profile: object = None) -> Body:
    """Return the body of a request."""
    body = request.start(PARAMETERS, request.client_tools)
    body["input"] = request.input if isinstance(request.input, str) else items_of(request.input)
    optional = {
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "metadata": request.metadata,
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    if request.encrypted_reasoning:
        body["include"] = [*body.get("include", ()), ENCRYPTED_REASONING]
    return body
