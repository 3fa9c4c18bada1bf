"""Results of the decoders for bytes that a provider, even a hostile one, may send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from projector.contracts.limits import EVENT_VALUES_MAX
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import AutoDecoder, NdjsonDecoder
from projector.core.sse import (
    SseDecoder,
    SseMessage,
    encode_comment,
    encode_events,
    encode_numbered_events,
    encode_sse,
    framing_of,
)

MALFORMED = FAULTS["upstream_malformed"]
TRUNCATED = FAULTS["upstream_truncated"]
TOO_LARGE = FAULTS["upstream_event_too_large"]
Decoder = SseDecoder | NdjsonDecoder | AutoDecoder


def run(decoder: Decoder, *reads: bytes) -> list[SseMessage | Fault]:
    said = [message for read in reads for message in decoder.feed(read)]
    return said + decoder.close()


def messages(*payloads: bytes) -> list[SseMessage | Fault]:
    return [SseMessage(payload) for payload in payloads]


GRAMMAR = {
    "LF": (b"data: 1\n\ndata: 2\n\n", messages(b"1", b"2")),
    "CR": (b"data: 1\r\rdata: 2\r\r", messages(b"1", b"2")),
    "CRLF": (b"data: 1\r\n\r\ndata: 2\r\n\r\n", messages(b"1", b"2")),
    "line ends mixed": (b"data: 1\r\ndata: 2\rdata: 3\n\r", messages(b"1\n2\n3")),
    "data lines join with LF": (b"data: a\ndata: b\ndata: c\n\n", messages(b"a\nb\nc")),
    "empty data lines join too": (b"data:\ndata\n\n", messages(b"\n")),
    "one blank after the colon goes, no more": (b"data:a\n\ndata:  b\n\ndata:\tc\n\n", messages(b"a", b" b", b"\tc")),
    "a colon in the value stays": (b"data: a: b\n\n", messages(b"a: b")),
    "empty data is a message": (b"data: 1\n\ndata\n\ndata:\n\n", messages(b"1", b"", b"")),
    "events without data are none": (b"event: ping\n\ndata: 1\n\n", messages(b"1")),
    "the name belongs to one event": (b"event: a\ndata: 1\n\ndata: 2\n\n", [SseMessage(b"1", "a"), SseMessage(b"2")]),
    "a name without data is forgotten": (b"event: a\n\ndata: 1\n\n", messages(b"1")),
    "the last name wins": (b"event: a\ndata: 1\nevent:b\n\n", [SseMessage(b"1", "b")]),
    "an empty name is none": (b"event: a\nevent\ndata: 1\n\n", messages(b"1")),
    "a name comes twice": (
        b"event: a\ndata: 1\n\nevent: a\ndata: 2\n\n",
        [SseMessage(b"1", "a"), SseMessage(b"2", "a")],
    ),
    "comments say nothing": (b": hello\n:\ndata: 1\n: between\ndata: 2\n\n:x\n\n", messages(b"1\n2")),
    "unknown fields say nothing": (b"data: 1\nfoo: x\nda: y\n data: z\nDATA: 1\n\n", messages(b"1")),
    "id and retry say nothing": (b"id: 7\nretry: 100\ndata: 1\n\n", messages(b"1")),
    "one mark is dropped": (b"\xef\xbb\xbfdata: 1\n\n", messages(b"1")),
    "a second mark is part of a field": (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", messages(b"2")),
    "a later mark is part of a field": (b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n", messages(b"1")),
    "null characters stay": (b"data: a\0b\n\n", messages(b"a\0b")),
    "characters beyond ASCII stay": ("data: λ🎈\n\n".encode(), messages("λ🎈".encode())),
    "other Unicode line ends are none": (
        "data: a\u2028b\x85\x0bc\n\n".encode(),
        messages("a\u2028b\x85\x0bc".encode()),
    ),
    "many blank lines": (b"\n\n\ndata: 1\n\n\n\n", messages(b"1")),
}


@pytest.mark.parametrize(("sent", "expected"), GRAMMAR.values(), ids=GRAMMAR.keys())
def test_the_grammar(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    assert run(SseDecoder(), sent) == expected
    assert run(SseDecoder(), *(sent[at : at + 1] for at in range(len(sent)))) == expected


CUTS = {
    "CRLF over two reads is one line end": ([b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n"], messages(b"1\n2")),
    "a CR ends its line before the next read": ([b"data: 1\r\r", b"data: 2\r", b"\r"], messages(b"1", b"2")),
    "an empty read between CR and LF": ([b"data: 1\r", b"", b"\ndata: 2\n\n"], messages(b"1\n2")),
    "CR, then a read that begins otherwise": ([b"data: 1\r", b"data: 2\n\n"], messages(b"1\n2")),
    "the mark in three reads": ([b"\xef", b"\xbb", b"\xbfdata: 1\n\n"], messages(b"1")),
    "a mark alone": ([b"\xef\xbb\xbf"], []),
    "a character in four reads": ([b"data: \xf0", b"\x9f", b"\x8e", b"\x88\n\n"], messages("🎈".encode())),
    "a field name in pieces": ([b"da", b"ta", b":", b" 1", b"\n", b"\n"], messages(b"1")),
}


@pytest.mark.parametrize(("reads", "expected"), CUTS.values(), ids=CUTS.keys())
def test_reads_that_end_anywhere(reads: list[bytes], expected: list[SseMessage | Fault]) -> None:
    assert run(SseDecoder(), *reads) == expected


ENDS = {
    "nothing": (b"", []),
    "blanks": (b" \n\r\n\t", []),
    "heartbeats alone": (b": ping\n\n: ping\n\n: pi", []),
    "no blank line after whole JSON": (b'data: {"a": 1}\n', messages(b'{"a": 1}')),
    "no line end after whole JSON": (b'event: e\ndata: {"a": 1}', [SseMessage(b'{"a": 1}', "e")]),
    "whole JSON on two lines": (b'data: {"a":\ndata: 1}', messages(b'{"a":\n1}')),
    "whole JSON, then the start of a field": (b'data: {"a": 1}\nid', messages(b'{"a": 1}')),
    "the end mark without a line end": (b"data: 1\n\ndata: [DONE]", messages(b"1", b"[DONE]")),
    "cut in the data of a later event": (b'data: 1\n\ndata: {"a', messages(b"1")),
    "cut in the second data line": (b"data: 1\n\ndata: {}\ndata: x", messages(b"1")),
    "cut JSON with its line end": (b'data: 1\n\ndata: {"a\n', messages(b"1")),
    "cut in the data of the only event": (b'data: {"a', [TRUNCATED]),
    "cut in the name of the only event": (b"event: respo", [TRUNCATED]),
    "cut before the data of the only event": (b"event: response.created\n", [TRUNCATED]),
    "cut in the first field name": (b"da", [TRUNCATED]),
    "cut after the first field name": (b"data", [TRUNCATED]),
    "cut in the second data line of the only event": (b'data: {"a":\ndat', [TRUNCATED]),
    "cut in the only event, after a line end": (b'data: {"a\n', [TRUNCATED]),
    "cut in the only event, after heartbeats": (b': ping\n\nid: 1\ndata: {"a', [TRUNCATED]),
    "cut in an event after an unreadable one": (b"event: ping\n\nda", [TRUNCATED]),
    "cut in the mark": (b"\xef\xbb", [TRUNCATED]),
    "cut behind the mark": (b"\xef\xbb\xbfdat", [TRUNCATED]),
    "a JSON document (D48)": (b'{"error": {"message": "no"}}', messages(b'{"error": {"message": "no"}}\n')),
    "a document of lines": (b'\n: ping\n\n{\n\n"a": 1\n}\n\n', messages(b'{\n\n"a": 1\n}\n\n')),
    "a document that is cut": (b'{\n"a": 1\n', [TRUNCATED]),
    "a list that is cut": (b'[\n {"a": 1},', [TRUNCATED]),
    "a line like a list": (b"[ERROR] no\n", [MALFORMED]),
    "a document, then a message": (b'{"a": 1}\n\ndata: 1\n\n', messages(b"1")),
    "a page": (b"<html>\n\n<body>502</body>\n</html>\n", [MALFORMED]),
    "a page after heartbeats": (b": ping\n\n<html>", [MALFORMED]),
    "empty data alone (D47)": (b"data:\n\n", messages(b"")),
    "empty data, then a message": (b"data:\n\ndata: 1\n\n", messages(b"", b"1")),
    "names alone": (b"event: ping\n\n", [MALFORMED]),
    "content, then a message": (b"<html>\n\ndata: 1\n\n", messages(b"1")),
}


@pytest.mark.parametrize(("sent", "expected"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_input(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    whole = run(SseDecoder(), sent)
    assert [said for said in whole if said != SseMessage(b"")] == [said for said in expected if said != SseMessage(b"")]
    assert whole[-1:] == expected[-1:]


LARGE = b'{"a":"' + b"x" * EVENT_VALUES_MAX + b'"'
LARGE_ENDS = {
    "whole": (LARGE + b"}", True),
    "a list, whole": (b"[" + LARGE + b"}]", True),
    "whole, with blanks": (LARGE + b"} \t", True),
    "cut": (LARGE, False),
    "cut behind an object": (LARGE + b',"b":{}', False),
    "more values than an event has": (b'{"a":[' + b"1," * EVENT_VALUES_MAX + b"1]}", False),
}


@pytest.mark.parametrize(("data", "is_whole"), LARGE_ENDS.values(), ids=LARGE_ENDS.keys())
def test_a_large_event_at_the_end_of_input(data: bytes, *, is_whole: bool) -> None:
    expected = messages(data) if is_whole else [TRUNCATED]
    assert run(SseDecoder(), b"data: " + data) == expected
    assert run(NdjsonDecoder(), data) == expected


def test_names_without_end_are_read_all_the_same() -> None:
    """More event names than the decoder caches."""
    named = [SseMessage(b"1", f"e{number}") for number in range(300)]
    assert run(SseDecoder(), *(encode_sse(*message) for message in named)) == named


def test_nothing_is_said_after_the_end() -> None:
    for decoder in (SseDecoder(), NdjsonDecoder(), AutoDecoder(SseDecoder())):
        decoder.feed(b"{}")
        decoder.close()
        assert decoder.feed(b"data: 1\n\n") == []
        assert decoder.close() == []


@pytest.mark.parametrize(
    ("reads", "line_end"),
    [
        ([b"data: 1\n\n"], b"\n"),
        ([b"data: 1\r\r"], b"\n"),
        ([b"data: 1\r\n\r\n"], b"\r\n"),
        ([b"data: 1\r", b"\n\r", b"\n"], b"\r\n"),
    ],
)
def test_the_line_end_of_a_stream(reads: list[bytes], line_end: bytes) -> None:
    decoder = SseDecoder()
    assert [message for read in reads for message in decoder.feed(read)] == messages(b"1")
    assert decoder.line_end == line_end


LIMIT = 10
SIZES = {
    "as large as allowed": (b"data: 3456\n\n", messages(b"3456")),
    "one line too large": (b"data: 1\n\ndata: 34567\n\n", [SseMessage(b"1"), TOO_LARGE]),
    "a line that does not end": (b"data: 1\n\ndata: 34567", [SseMessage(b"1"), TOO_LARGE]),
    "two lines too large together": (b"data:\ndata:1\n\n", [TOO_LARGE]),
    "many lines too large together": (b"data\ndata\ndata", [TOO_LARGE]),
    "an event for each line": (b"data:1\n\ndata:2\n\ndata:3\n\n", messages(b"1", b"2", b"3")),
    "a comment counts": (b":3456789abc\n\n", [TOO_LARGE]),
    "a mark does not": (b"\xef\xbb\xbfdata: 3456\n\n", messages(b"3456")),
    "comments apart": (b":345678\n\n:345678\n\ndata: 1\n\n", messages(b"1")),
}


@pytest.mark.parametrize(("sent", "expected"), SIZES.values(), ids=SIZES.keys())
def test_an_event_over_the_limit_is_the_last_thing_said(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    for width in (1, 2, 7, len(sent)):
        decoder = SseDecoder(LIMIT)
        reads = [sent[at : at + width] for at in range(0, len(sent), width)]
        assert run(decoder, *reads) == expected, width
        assert (decoder.feed(b"\n\ndata: 1\n\n"), decoder.close()) == ([], [])


def test_an_unfinished_event_may_be_fed_again() -> None:
    decoder = SseDecoder(LIMIT)
    assert decoder.feed(b"data: 3456") == []
    assert decoder.feed(decoder.take_unfinished() + b"\n\n") == messages(b"3456")


MESSAGE_FIELDS = {
    "alone, then the end": (b'error: {"code": 1}', [SseMessage(b'{"code": 1}', "error")]),
    "with a line end": (b"data: 1\n\nerror: x\n", [SseMessage(b"1"), SseMessage(b"x", "error")]),
    "with a blank line": (b"error: x\n\ndata: 1\n\n", [SseMessage(b"x", "error"), SseMessage(b"1")]),
    "it ends the event before it": (
        b"data: 1\ndata: 2\nerror:x\n\ndata: 3\n\n",
        [SseMessage(b"1\n2"), SseMessage(b"x", "error"), SseMessage(b"3")],
    ),
    "its JSON is cut": (b'error: {"code": ', [TRUNCATED]),
    "its JSON is cut after a message": (b'data: 1\n\nerror: {"code": ', messages(b"1")),
    "its name is cut": (b"err", [TRUNCATED]),
    "plain words without a line end": (b"error: over", [SseMessage(b"over", "error")]),
    "other unknown fields are none": (b"data: 1\nerrors: x\n\n", messages(b"1")),
}


@pytest.mark.parametrize(("sent", "expected"), MESSAGE_FIELDS.values(), ids=MESSAGE_FIELDS.keys())
def test_a_field_that_is_a_message(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    assert run(SseDecoder(message_fields=["error"]), sent) == expected
    assert run(AutoDecoder(SseDecoder(message_fields=["error"])), sent) == expected


NDJSON = {
    "nothing": (b"", []),
    "blanks": (b"\n \r\n", []),
    "a line is a message": (b'{"a": 1}\n\n{"b": 2}\r\n', messages(b'{"a": 1}', b'{"b": 2}')),
    "a mark": (b"\xef\xbb\xbf{}\n", messages(b"{}")),
    "no line end after whole JSON": (b'{}\n{"b": 2}', messages(b"{}", b'{"b": 2}')),
    "no line end after the end mark": (b"{}\n[DONE]", messages(b"{}", b"[DONE]")),
    "the last line is cut": (b'{}\n{"b": ', messages(b"{}")),
    "the only line is cut": (b'{"b": ', [TRUNCATED]),
    "only a part of the end mark": (b"[DO", [TRUNCATED]),
    "an only line that is no JSON": (b"<htm", [MALFORMED]),
    "what is no JSON is for the next stage": (b"<html>\n", messages(b"<html>")),
}


@pytest.mark.parametrize(("sent", "expected"), NDJSON.values(), ids=NDJSON.keys())
def test_lines_of_json(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    assert run(NdjsonDecoder(), sent) == expected


@pytest.mark.parametrize("sent", [b'{}\n{"a": 12}\n{}\n', b'{}\n{"a": 123'])
def test_a_line_over_the_limit_is_the_last_thing_said(sent: bytes) -> None:
    for width in (1, len(sent)):
        decoder = NdjsonDecoder(8)
        assert run(decoder, *(sent[at : at + width] for at in range(0, len(sent), width))) == [
            SseMessage(b"{}"),
            TOO_LARGE,
        ]


AUTO = {
    "NDJSON": (b'{"a": 1}\n{}\n', messages(b'{"a": 1}', b"{}")),
    "NDJSON after blanks and a mark": (b"\xef\xbb\xbf \r\n\t{}\n", messages(b"\t{}")),
    "an event stream": (b"data: {}\n\n", messages(b"{}")),
    "an event stream after blank lines": (b"\n\r\n\ndata: {}\n\n", messages(b"{}")),
    "an event stream with a mark": (b"\xef\xbb\xbfdata: {}\n\n", messages(b"{}")),
    "a blank before a field makes it unknown": (b" data: {}\n\n", [MALFORMED]),
    "a comment first": (b": ping\n\ndata: {}\n\n", messages(b"{}")),
    "a list is a document": (b"[1]\n", messages(b"[1]\n")),
    "blanks alone": (b" \n\n", []),
    "more blanks than an event may hold": (b" " * 20 + b"{}\n", [TOO_LARGE]),
}


@pytest.mark.parametrize(("sent", "expected"), AUTO.values(), ids=AUTO.keys())
def test_the_first_character_chooses(sent: bytes, expected: list[SseMessage | Fault]) -> None:
    for width in (1, 2, len(sent)):
        assert (
            run(AutoDecoder(SseDecoder(16)), *(sent[at : at + width] for at in range(0, len(sent), width))) == expected
        ), width


def framed(name: str | None, rows: list[bytes]) -> bytes:
    head, between, end = framing_of(name)
    return head + between.join(rows) + end


WRITTEN: dict[str, tuple[Callable[..., bytes], tuple[Any, ...], bytes]] = {
    "data": (encode_sse, (b"{}",), b"data: {}\n\n"),
    "a named event": (encode_sse, (b"{}", "ping"), b"event: ping\ndata: {}\n\n"),
    "lines": (encode_sse, (b"a\nb\r\nc\rd\n",), b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
    "lines that end with CR": (encode_sse, (b"a\rb",), b"data: a\ndata: b\n\n"),
    "several messages": (
        encode_events,
        ([(None, b"{}"), ("ping", b"1"), (None, b"a\nb"), (None, b"a\rb")],),
        b"data: {}\n\nevent: ping\ndata: 1\n\ndata: a\ndata: b\n\ndata: a\ndata: b\n\n",
    ),
    "no message": (encode_events, ([],), b""),
    "a message without a name": (framed, (None, [b"1"]), b"data: 1\n\n"),
    "messages without a name": (framed, (None, [b"1", b"2"]), b"data: 1\n\ndata: 2\n\n"),
    "a message with a name": (framed, ("ping", [b"1"]), b"event: ping\ndata: 1\n\n"),
    "messages with the same name": (
        framed,
        ("ping", [b"1", b"2"]),
        b"event: ping\ndata: 1\n\nevent: ping\ndata: 2\n\n",
    ),
    "numbered messages": (
        encode_numbered_events,
        ([(None, b"{}"), ("ping", b"a\nb")], 9),
        b"id: 9\ndata: {}\n\nid: 10\nevent: ping\ndata: a\ndata: b\n\n",
    ),
    "a comment": (encode_comment, ("heartbeat 12:00",), b": heartbeat 12:00\n\n"),
    "a comment stays one line": (encode_comment, ("a\n\ndata: b\rc",), b": a  data: b c\n\n"),
}


@pytest.mark.parametrize(("write", "given", "expected"), WRITTEN.values(), ids=WRITTEN.keys())
def test_what_is_written(write: Callable[..., bytes], given: tuple[Any, ...], expected: bytes) -> None:
    assert write(*given) == expected
