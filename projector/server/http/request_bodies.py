"""The body of the request to an upstream, for each of our routes, and the stored state that it refers to.

The provider's `request_writer` writes the body. A response, an item, an approval or a conversation exists at one
provider account. A request that refers to one is sent there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeAlias

from projector.conversation.client_history import ClientPart, ConversationSettings, InputRefusedError, check_calls
from projector.conversation.entries import Approval, Conversation, Entry
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.conversation.opaque import (
    NOTHING_KEPT,
    KeptCalls,
    Place,
    has_state,
    lacks_state,
    waiting_turn,
    with_opaque,
)
from projector.providers import PROVIDERS
from projector.providers.descriptor import PassthroughRoute
from projector.server.catalog import AgentBinding, unknown_model
from projector.server.control.callers import Grant
from projector.server.http.problems import Problem, problem
from projector.server.http.requests import ChatRequest, Parameters, part_params
from projector.server.http.stored_references import (
    APPROVAL,
    conversation_of,
    is_only_an_id,
    item_references,
    kind_of,
    objects_in,
    with_tools,
)
from projector.server.ownership import Ownership
from projector.server.upstream.targets import Target

Body: TypeAlias = dict[str, Any]

_CHECKED: Final = frozenset(
    {
        *("background", "container", "conversation", "input", "messages", "model", "previous_response_id"),
        *("stream", "stream_options", "tools"),
    }
)
"""Members that this server checks or sets. Servers in Go ignore the case of names, so `Model` could replace `model`."""
_NAME_MAX: Final = 128
_DOTS: Final = frozenset({".", ".."})
"""Names of a model that stand for another path at an upstream with the model in the path, even in percent encoding."""
_NOT_ASKING: Final = frozenset(
    {"client_metadata", "input", "instructions", "messages", "metadata", "moderation", "prompt", "system"}
)
"""Members of a body in which `model` is a word of the caller, or no model that answers."""


def agent_body(
    request: ChatRequest, binding: AgentBinding, target: Target | None = None, *, kept: KeptCalls = NOTHING_KEPT
) -> Body:
    """Return the body for a target of the agent, by default the first.

    Raises:
        Problem: agent or provider do not support the request.
    """
    entries, parameters = request.entries(), request.parameters.given()
    for name in sorted({*request.params(entries), *parameters} - binding.settings.allowed_params):
        raise _not_allowed(name, "input")
    if entries and (fault := check_calls(entries, is_continued=request.previous_response_id is not None)):
        raise problem("invalid_request", fault)
    body = write_body(
        binding,
        target,
        kept=kept,
        input=entries if request.message is None else request.message,
        parameters=parameters,
        previous_response_id=request.previous_response_id,
        metadata=request.metadata,
    )
    if entries and request.previous_response_id is None and any(isinstance(one, Approval) for one in entries):
        missing = "`previous_response_id`: the `response_id` of the call that waits"
        raise problem("invalid_request", f"`mcp_approval_response` needs {missing}.")
    return body


_CONTENT: Final[Mapping[str, str]] = {"files": "Files", "history": "Earlier messages and calls", "images": "Images"}
"""Name in `AgentSettings.allowed_params` that is no member of a request -> what a conversation contains."""


def _not_allowed(name: str, conversation: str) -> Problem:
    """Return the problem of what an agent does not allow; `conversation` is the member with the messages."""
    path = f"parameters.{name}" if name in Parameters.model_fields else name
    content = _CONTENT.get(name)
    what = f"`{path}` cannot be set here" if content is None else f"{content} in `{conversation}` are not allowed"
    return problem("invalid_request", f"{what}: `allowed_params` of the agent does not list `{name}`.")


def client_part(
    read: Callable[..., ClientPart], binding: AgentBinding, previous_response_id: str | None = None
) -> ClientPart:
    """Return the client's part of a request with a conversation that the client holds, as `read` finds it.

    The client may also provide tools that the agent allows. `previous_response_id` is the response that requested the
    approvals in this request, if there are any.

    Raises:
        Problem: the agent does not support the request, or there is nothing to answer.
    """
    agent = binding.settings
    settings = ConversationSettings(agent.policy.encrypted_reasoning, agent.trust_client_approvals)
    try:
        client = read(client_tools=agent.client_tools, settings=settings, previous_response_id=previous_response_id)
    except InputRefusedError as error:
        raise problem("invalid_request", str(error)) from None
    for name in sorted(part_params(client.entries) - agent.allowed_params):
        raise _not_allowed(name, "messages")
    return client


def passthrough_body(
    body: Mapping[str, Any], binding: AgentBinding, *, required: str, target: Target | None = None
) -> Body:
    """Return the caller's own body with the model of a target, by default the first.

    Raises:
        Problem: the model or the `required` member is missing, the model would be another path of the upstream, or a
            member differs from a checked one only in case.
    """
    for name in body:
        if name not in _CHECKED and name.casefold() in _CHECKED:
            raise problem("invalid_request", f"Expected `{name.casefold()}` in lower case.", param=name[:_NAME_MAX])
    defaults = {} if binding.default_model is None else {"model": binding.default_model}
    sent = {**defaults, **body}
    for name in ("model", required):
        if name not in sent:
            raise problem("invalid_request", f"`{name}` is missing.", param=name)
    if not isinstance(sent["model"], str) or not sent["model"]:
        raise problem("invalid_request", "`model` must be a string that is not empty.", param="model")
    if sent["model"] in _DOTS:
        raise problem("invalid_request", "`model` must be a name.", param="model")
    target = target or binding.targets.targets[0]
    models = target.provider.models or {}
    return sent | {"model": target.model or models.get(sent["model"], sent["model"])}


def target_body(
    body: Mapping[str, Any],
    route: PassthroughRoute,
    target: Target,
    api: str,
    kept: KeptCalls = NOTHING_KEPT,
    *,
    encrypted_reasoning: bool = False,
) -> Body:
    """Return a caller's body for a target, which may have another API than the route, `api`.

    `encrypted_reasoning` is whether a target with another API is asked for it.

    Raises:
        Problem: the target or the response cannot express the request; its `param` is the member.
    """
    provider = target.provider
    if route.request_reader is None and provider.api != api:
        raise problem("invalid_request", "This model is not offered on this route.", param="model")
    try:
        if route.request_reader is None or provider.api == api:
            valid = {one: call for one, call in kept.items() if call.place == target.place}
            return route.body_writer(body, target.profile, valid)
        request = replace(route.request_reader(body), encrypted_reasoning=encrypted_reasoning)
        if kept and not isinstance(request.input, str):
            request = replace(request, input=with_opaque(request.input, kept, target.place))
        return PROVIDERS[provider.api].request_writer(request, target.profile)
    except UnsupportedRequestError as error:
        raise problem("invalid_request", str(error), param=error.param) from None


def read_entries(body: Mapping[str, Any], route: PassthroughRoute) -> Conversation | None:
    """Return the conversation in a caller's body; None if it has parts that only an upstream of its API can read."""
    try:
        return None if route.request_reader is None else route.request_reader(body).entries
    except UnsupportedRequestError:
        return None


def check_models(body: Mapping[str, Any], binding: AgentBinding, grant: Grant) -> None:
    """Raise `Problem` if a caller may not use a model that a body of a passthrough route requests."""
    for model in named_models(body, binding.default_model):
        if not grant.allows("models", model):
            raise unknown_model(model)


def named_models(body: Mapping[str, Any], default: str | None = None) -> Iterator[str]:
    """Yield the names of all models that a body of a passthrough route requests: the model, its fallbacks, and tools'.

    `default` is the model of a body without one. Names of members are compared without case, as some providers do.
    """
    if "model" not in body and default is not None:
        yield default
    for part in _asking_parts(body):
        for name, value in part.items():
            if _names_models(name):
                yield from _names_in(value)


def _asking_parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that can name models: the body, its tools, and other members, as routers have them."""
    yield body
    found = [value for name, value in body.items() if name.casefold() not in _NOT_ASKING and not _names_models(name)]
    found += [item.get("tools") for item in objects_in(body.get("input"))]
    for part in chain.from_iterable(map(with_tools, found)):
        yield part
        yield from objects_in(part.get("svg"))  # of image generation


def _names_models(name: str) -> bool:
    """Return whether a member names models; routers in front of providers accept several kinds of fallbacks."""
    return name.casefold() == "model" or name.casefold().endswith(("fallbacks", "models"))


def _names_in(value: object) -> Iterator[str]:
    """Yield the names in a member: all strings at any depth, or of a request that is a fallback those of models.

    A router may also take an object with a `model` for a map from models to lists of fallbacks, so these count too.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            is_request = any(name.casefold() == "model" for name in one)
            named = {name for name in one if not is_request or _names_models(name)}
            waiting += [one[name] for name in reversed(one) if name in named]
            others = (one[name] for name in one if name not in named)
            yield from (text for texts in others if isinstance(texts, list) for text in texts if isinstance(text, str))


def write_body(
    binding: AgentBinding, target: Target | None = None, *, kept: KeptCalls = NOTHING_KEPT, **members: Any
) -> Body:
    """Return the body for a target of an agent, by default the first, with the agent's part.

    `members` are those of `ModelRequest` that are the caller's. Raises `Problem` if the provider does not support them.
    """
    target = target or binding.targets.targets[0]
    agent = binding.settings
    if kept and not isinstance(members["input"], str):
        members["input"] = with_opaque(members["input"], kept, target.place)
    request = ModelRequest(
        model=target.model or "",
        instructions=agent.instructions,
        tools=agent.tools,
        body=agent.parameters,
        encrypted_reasoning=agent.policy.encrypted_reasoning,
        **members,
    )
    try:
        return PROVIDERS[target.provider.api].request_writer(request, target.profile)
    except UnsupportedRequestError as error:
        raise problem("invalid_request", str(error)) from None


_REASONING: Final = frozenset({"reasoning", "compaction"})
"""Types of items that the provider finds by their ID, or has encrypted."""


def home_targets(
    body: Mapping[str, Any], targets: Sequence[Target], configured: Sequence[Target], ownership: Ownership
) -> Sequence[Target]:
    """Return the targets that a request may be sent to: all of them, unless it refers to stored state.

    If the upstream of the state is not known, such as after a restart, it is the one of the first target configured.

    Raises:
        Problem: the state is at an upstream that is not a target, or at several upstreams.
    """
    if not isinstance(body.get("input"), list) and body.keys().isdisjoint(("previous_response_id", "conversation")):
        return targets
    places = set(_references(body, ownership))
    if not places:
        names = {target.provider.name for target in targets}
        places = {place for place in _readers(body, ownership) if place in names}
        if not places:
            return targets
    known = [place for place in places if place is not None]
    if len(known) > 1:
        raise problem("invalid_request", "The request refers to responses of different upstreams.")
    home = known[0] if known else configured[0].provider.name
    found = [target for target in targets if target.provider.name == home]
    if not found:
        raise problem("unknown_response", "The response is stored at an upstream that is not used here.")
    return found[:1]


class KeptState:
    """What is kept of the calls of a request, or is sealed in it, and the targets that it is valid at.

    Args:
        kept: the values.
        entries: returns the conversation, None if it cannot be read.
    """

    def __init__(self, kept: KeptCalls, entries: Callable[[], Sequence[Entry] | None]) -> None:
        self._kept = kept
        self._entries = entries
        self._place = max(kept.values(), key=lambda call: call.at).place if kept else None

    def first(self, targets: Sequence[Target]) -> Sequence[Target]:
        """Return the targets, the one with the latest value first."""
        if self._place is None or len(targets) == 1:
            return targets
        return sorted(targets, key=lambda target: target.place != self._place)

    def allowed(self, targets: Sequence[Target]) -> Sequence[Target]:
        """Return the targets that a request may be sent to: only the first, if it needs the values of that one."""
        place = self._place
        if place is None or len(targets) == 1 or targets[0].place != place:
            return targets
        wanting = self._wanting(place)
        return targets[:1] if wanting is None or has_state(wanting, self._kept, place) else targets

    def is_lost(self, target: Target) -> bool:
        """Return whether calls are sent to a target without what it may have sent with them."""
        wanting = self._wanting(target.place)
        return wanting is not None and lacks_state(wanting, self._kept, target.place)

    def _wanting(self, place: Place) -> Sequence[Entry] | None:
        """Return the entries of which the provider of a place wants values back."""
        entries = self._entries()
        is_short = entries is not None and PROVIDERS[place.provider].wants_state == "turn"
        return waiting_turn(entries) if entries is not None and is_short else entries


def _references(body: Mapping[str, Any], ownership: Ownership) -> Iterator[str | None]:
    """Yield the upstream of each reference of a request, None for one that is not known."""
    if body.get("previous_response_id") is not None:
        yield ownership.upstream_of("response", body["previous_response_id"])
    if body.get("conversation") is not None:
        yield ownership.upstream_of("place", conversation_of(body))
    for item_id in item_references(body):
        yield ownership.upstream_of("item", item_id)


def _readers(body: Mapping[str, Any], ownership: Ownership) -> Iterator[str | None]:
    """Yield the upstream of each item that only this upstream can read, or find by its ID."""
    for item in objects_in(body.get("input")):
        kind = kind_of(item)
        if kind == APPROVAL:
            yield ownership.approval_upstream(item.get("approval_request_id"))
        elif kind in _REASONING or is_only_an_id(item):
            yield ownership.upstream_of("item", item.get("id"))
