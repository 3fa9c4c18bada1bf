"""Where reasoning between tags begins and ends, for every mode."""

from __future__ import annotations

import pytest

from projector.providers.think import Operation, ThinkMode, ThinkSplitter

CLOSE = Operation("close")
DROP = Operation("drop")


def text(value: str) -> Operation:
    return Operation("text", value)


def thought(value: str) -> Operation:
    return Operation("reasoning", value)


def split(mode: ThinkMode, *pieces: str, tags: tuple[tuple[str, str], ...] = ()) -> list[Operation]:
    """Return the operations with neighbours of one kind joined."""
    splitter = ThinkSplitter(mode, tags)
    joined: list[Operation] = []
    for operation in [*(found for piece in pieces for found in splitter.push(piece)), *splitter.close()]:
        if joined and operation.kind == joined[-1].kind != "close":
            joined[-1] = Operation(operation.kind, joined[-1].text + operation.text)
        else:
            joined.append(operation)
    return joined


CASES: dict[str, tuple[ThinkMode, str, list[Operation]]] = {
    "nothing": ("start", "", []),
    "no block": ("start", "Hello", [text("Hello")]),
    "a block, then text": ("start", "<think>Hm.</think>Hello", [thought("Hm."), CLOSE, text("Hello")]),
    "white space stays": (
        "start",
        "\n<think>\nHm.\n</think>\n\nHello",
        [text("\n"), thought("\nHm.\n"), CLOSE, text("\n\nHello")],
    ),
    "an empty block": ("start", "<think></think>Hello", [CLOSE, text("Hello")]),
    "two blocks before the text": (
        "start",
        "<think>a</think>\n<think>b</think>c",
        [thought("a"), CLOSE, text("\n"), thought("b"), CLOSE, text("c")],
    ),
    "a tag after visible text is text": ("start", "See <think>x</think>", [text("See <think>x</think>")]),
    "a tag after the answer began is text": (
        "start",
        "<think>a</think>b<think>c</think>",
        [thought("a"), CLOSE, text("b<think>c</think>")],
    ),
    "what only looks like a tag is text": ("start", "<thin>", [text("<thin>")]),
    "a lone closing tag is text": ("start", "a</think>b", [text("a</think>b")]),
    "an opening tag inside is reasoning": (
        "start",
        "<think>a<think>b</think>c",
        [thought("a<think>b"), CLOSE, text("c")],
    ),
    "an unclosed block": ("start", "<think>a", [thought("a"), CLOSE]),
    "an unclosed block that ends within its tag": ("start", "<think>a</thi", [thought("a</thi"), CLOSE]),
    "an end within the opening tag": ("start", " <thi", [text(" <thi")]),
    "a tag that starts twice": ("start", "<think>a<</think>b", [thought("a<"), CLOSE, text("b")]),
    "a tag that starts anew inside itself": ("start", "<think>a</th</think>b", [thought("a</th"), CLOSE, text("b")]),
    "anywhere: between texts": (
        "anywhere",
        "a <think>b</think> c <think>d</think>",
        [text("a "), thought("b"), CLOSE, text(" c "), thought("d"), CLOSE],
    ),
    "D51: quoted tags are text": (
        "anywhere",
        "Use `<think>` and `</think>`, <think>a`</think>b",
        [text("Use `<think>` and `</think>`, "), thought("a`"), CLOSE, text("b")],
    ),
    "D51: blanks in a tag": (
        "anywhere",
        "a< think >b</ think\n>c<think  >d</think>",
        [text("a"), thought("b"), CLOSE, text("c"), thought("d"), CLOSE],
    ),
    "D51: too many blanks": ("anywhere", "<think     >a", [text("<think     >a")]),
    "D51: blanks in a word": ("anywhere", "<th ink>a", [text("<th ink>a")]),
    "D51: thought": ("anywhere", "<thought>a</thought>b", [thought("a"), CLOSE, text("b")]),
    "D51: the channels of Gemma": (
        "anywhere",
        "<|channel>thought\na<channel|>b",
        [thought("\na"), CLOSE, text("b")],
    ),
    "D51: a blank before a lone closing tag": ("anywhere", "</think>b", [CLOSE, text("b")]),
    "anywhere: an end within the opening tag": ("anywhere", "a<think", [text("a<think")]),
    "assume open: reasoning at once": ("assume_open", "Hm.</think>Hello", [thought("Hm."), CLOSE, text("Hello")]),
    "assume open: another block before the text": (
        "assume_open",
        "a</think> <think>b</think>c<think>",
        [thought("a"), CLOSE, text(" "), thought("b"), CLOSE, text("c"), CLOSE],
    ),
    "assume open: never closed": ("assume_open", "Hm.", [thought("Hm."), CLOSE]),
    "assume open: nothing at all": ("assume_open", "", [CLOSE]),
    "D46: capitals": ("start", "<THINK>a</Think>b", [thought("a"), CLOSE, text("b")]),
    "D46: another word": (
        "start",
        " <thinking>a</think>b</thinking>c",
        [text(" "), thought("a</think>b"), CLOSE, text("c")],
    ),
    "D46: another word, never closed": ("start", "<thinking>a</think>", [thought("a</think>"), CLOSE]),
    "D46: only the beginning of a word": ("start", "<thinkin", [text("<thinkin")]),
    "D46: letters that only look like capitals": ("start", "<thin\u212a>a", [text("<thin\u212a>a")]),
    "D46: several spellings": (
        "anywhere",
        "a<thinking>b</THINKING>c<think>d</think>",
        [text("a"), thought("b"), CLOSE, text("c"), thought("d"), CLOSE],
    ),
    "D46: assume open, another word": ("assume_open", "a</thinking>b", [thought("a"), CLOSE, text("b")]),
    "D46: channels": (
        "start",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        [thought("a"), CLOSE, text("b")],
    ),
    "D46: channels, two of reasoning": (
        "start",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>c",
        [thought("a"), CLOSE, thought("b"), CLOSE, text("c")],
    ),
    "D46: a channel of the answer alone": ("start", "<|channel|>final<|message|>a<|end|>", [text("a<|end|>")]),
    "D46: an unknown channel is text": (
        "start",
        "<|channel|>other<|message|>a",
        [text("<|channel|>other<|message|>a")],
    ),
    "D46: a channel that is cut": ("start", "<|channel|>anal", [text("<|channel|>anal")]),
    "D46: channels anywhere": (
        "anywhere",
        "<|channel|>analysis<think>a</think>b<|channel|>final<|message|>c",
        [text("<|channel|>analysis"), thought("a"), CLOSE, text("bc")],
    ),
    "off: other spellings": ("off", "<THINK>a</THINK>b", [text("<THINK>a</THINK>b")]),
    "off": ("off", "<think>a</think>b", [text("<think>a</think>b")]),
}


@pytest.mark.parametrize(("mode", "sent", "expected"), CASES.values(), ids=CASES.keys())
def test_operations(mode: ThinkMode, sent: str, expected: list[Operation]) -> None:
    assert split(mode, sent) == expected
    assert split(mode, *sent) == expected
    for at in range(len(sent)):
        assert split(mode, sent[:at], sent[at:]) == expected


def test_only_a_prefix_of_a_tag_is_held_back() -> None:
    splitter = ThinkSplitter("anywhere")
    assert splitter.push("a <b> <") == [text("a <b> ")]
    assert splitter.push("think") == []
    assert splitter.push("ers>") == [text("<thinkers>")]
    assert splitter.push("<think>Hm <") == [thought("Hm ")]
    assert splitter.push("/p>") == [thought("</p>")]


LONE: dict[str, tuple[list[str], list[Operation]]] = {
    "nothing shown yet": (["a</think>b"], [thought("a"), CLOSE, text("b")]),
    "shown": (["a", "b</think>c"], [text("ab"), DROP, text("c")]),
    "cut": (["a", "</thi", "nk>c"], [text("a"), DROP, text("c")]),
    "after a block": (["<think>a</think>", "b</think>c"], [thought("a"), CLOSE, thought("b"), CLOSE, text("c")]),
    "another one": (["a", "<channel|>"], [text("a"), DROP]),
    "quoted": (["a `", "</think>` b"], [text("a `</think>` b")]),
}


@pytest.mark.parametrize(("pieces", "expected"), LONE.values(), ids=LONE)
def test_d51_a_lone_closing_tag(pieces: list[str], expected: list[Operation]) -> None:
    assert split("anywhere", *pieces) == expected


def test_tags_are_configurable() -> None:
    tags = (("[THINK]", "[/THINK]"),)
    assert split("start", "[THINK]a[/THINK]<b>", tags=tags) == [thought("a"), CLOSE, text("<b>")]
    assert split("start", "[think]a[/THINK]b", tags=tags) == [thought("a"), CLOSE, text("b")]
    assert split("anywhere", "a[THINK]b[/think]c<think>d", tags=tags) == [
        *(text("a"), thought("b"), CLOSE, text("c"), thought("d"), CLOSE)
    ]


def test_text_without_tags_becomes_plain() -> None:
    splitter = ThinkSplitter("start")
    assert not splitter.is_plain
    splitter.push("<think>a</think> b")
    assert splitter.is_plain
    assert ThinkSplitter("off").is_plain
    assert not ThinkSplitter("anywhere").is_plain
