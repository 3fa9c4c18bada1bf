"""The body of a request to the Responses API."""

from __future__ import annotations

from typing import Final

from projector.providers.model_request import Body, Item, ModelRequest, ParameterPaths

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"

PARAMETERS: Final[ParameterPaths] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_output_tokens": ("max_output_tokens",),
    "reasoning_effort": ("reasoning", "effort"),
    "verbosity": ("text", "verbosity"),
}


def write_request(request: ModelRequest, _profile: None = None) -> Body:
    """Return the body of a request."""
    body = request.start(PARAMETERS, request.client_tools)
    body["input"] = request.input if isinstance(request.input, str) else list(map(_item, request.input))
    optional = {
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "metadata": request.metadata,
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    if request.encrypted_reasoning:
        body["include"] = [*body.get("include", ()), ENCRYPTED_REASONING]
    return body


def _item(item: Item) -> Item:
    """Return an input item. The API requires `detail` of each image."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    parts = [{**part, "detail": part.get("detail", "auto")} if _is_image(part) else part for part in content]
    return {**item, "content": parts}


def _is_image(part: Item) -> bool:
    return part.get("type") == "input_image"
