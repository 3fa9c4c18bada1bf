"""Check a stream with the checker of its dialect: one of ours, or one that only tests need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from projector.contracts.stream_rules.table import Checker
from projector.dialects import DIALECTS
from tests.protocols.ag_ui.checker import AgUiChecker
from tests.protocols.ai_sdk.checker import AiSdkChecker
from tests.protocols.anthropic_messages.checker import AnthropicMessagesChecker
from tests.protocols.chat_completions.checker import ChatCompletionsChecker
from tests.protocols.openresponses.checker import OpenResponsesChecker
from tests.protocols.responses.checker import ResponsesChecker

CHECKERS: Final[Mapping[str, Callable[[], Checker]]] = {
    "ag_ui": AgUiChecker,
    "ai_sdk": AiSdkChecker,
    "anthropic_messages": AnthropicMessagesChecker,
    "chat_completions": ChatCompletionsChecker,
    "openresponses": OpenResponsesChecker,
    "responses": ResponsesChecker,
}
"""Dialect that follows a protocol of others -> checker of its streams."""


def checker_of(dialect: str) -> Checker:
    """Return a checker of one stream of a dialect."""
    make = CHECKERS.get(dialect) or DIALECTS[dialect].checker
    assert make is not None, dialect
    return make()


def violations_of(dialect: str, lines: Sequence[bytes]) -> list[str]:
    """Return the violations that the dialect's checker finds, as text."""
    checker = checker_of(dialect)
    found = [one for number, line in enumerate(lines, 1) for one in checker.feed(number, line)]
    return [str(one) for one in [*found, *checker.close()]]
