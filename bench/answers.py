"""Leaks and wrong ends of the programs of `bench/compare.py`: what a client of each sees of the same answers.

A provider on loopback sends answers with planted secrets, whose text is cut into events at random places and whose
bytes are cut into writes at random places, and answers that it breaks off at random places. All of it has a fixed seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import string
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import aiohttp
from provider_streams import CHAT_DELTA, CHAT_END, CHAT_EVENT, CHAT_FIRST, CHAT_LAST, HEAD, MODELS

SEED: Final = 44
SILENCE_S: Final = 10
"""Seconds after which the programs end a stream of a silent provider, if they can."""
GIVE_UP_S: Final = 40
"""Seconds after which the client stops waiting for the end of an answer."""
AT_A_TIME: Final = 8
ALNUM: Final = string.ascii_letters + string.digits
URL_SAFE: Final = ALNUM + "-_"

Draw = random.Random


def _some(draw: Draw, count: int, of: str = ALNUM) -> str:
    return "".join(draw.choices(of, k=count))


def _card(draw: Draw) -> str:
    digits = "4" + _some(draw, 14, string.digits)
    odd = (sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(digits))
    digits += str(-sum(odd) % 10)
    return " ".join(digits[at : at + 4] for at in range(0, 16, 4))


def _pem(draw: Draw) -> str:
    lines = [_some(draw, 64, ALNUM + "+/") for _ in range(4)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])


SECRETS: Final[Mapping[str, Callable[[Draw], str]]] = {
    "aws": lambda draw: "AKIA" + _some(draw, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "github": lambda draw: "ghp_" + _some(draw, 36),
    "slack": lambda draw: f"xoxb-{_some(draw, 12, '123456789')}-{_some(draw, 12, '123456789')}-{_some(draw, 24)}",
    "card": _card,
    "openai": lambda draw: f"sk-proj-{_some(draw, 74)}T3BlbkFJ{_some(draw, 74)}",
    "jwt": lambda draw: f"eyJhbGciOiJIUzI1NiJ9.eyJ{_some(draw, 60, URL_SAFE)}.{_some(draw, 43, URL_SAFE)}",
    "key": _pem,
}
"""Format of a secret -> what draws one."""
COMMON: Final = frozenset({"aws", "github", "slack", "card"})
"""Formats that LiteLLM's content filter has too."""
PLACES: Final = ("{}", "`{}`", "the key is {}, and", "\n{}\n", "value: {}")


class Answer(NamedTuple):
    """An answer of the provider."""

    kind: str
    writes: Sequence[bytes]
    end: str = "closes"
    """What the provider does after the last write: `closes`, `resets` or `waits`."""
    is_cut: bool = False
    secret: str = ""


def _pieces(draw: Draw, data: Any, longest: int) -> Iterator[Any]:
    at = 0
    while at < len(data):
        size = draw.randint(1, longest)
        yield data[at : at + size]
        at += size


def _writes(draw: Draw, events: Sequence[bytes], last: bytes = b"0\r\n\r\n") -> list[bytes]:
    """Return the bytes of a response in chunks, cut at random places."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    return [HEAD, *_pieces(draw, body + last, draw.choice((40, 200, 2000)))]


def leaks(count: int) -> list[Answer]:
    """Return answers with a planted secret each."""
    draw, made = Draw(SEED), []
    for number in range(count):
        kind = [*SECRETS][number % len(SECRETS)]
        secret = SECRETS[kind](draw)
        words = [_some(draw, draw.randint(1, 9), string.ascii_lowercase) for _ in range(40)]
        words.insert(draw.choice((0, draw.randint(1, 39), 40)), draw.choice(PLACES).format(secret))
        deltas = _pieces(draw, " ".join(words), draw.choice((3, 8, 20, 60)))
        events = [CHAT_EVENT % (b'"content":%b' % json.dumps(delta).encode(), b"null") for delta in deltas]
        writes = _writes(draw, [CHAT_FIRST, *events, CHAT_LAST, CHAT_END])
        made.append(Answer(kind, writes, secret=secret))
    return made


ERROR: Final = b'data: {"error":{"message":"overloaded","type":"server_error","param":null,"code":null}}\n\n'


class Fault(NamedTuple):
    """What goes wrong: what follows the events, and how the response ends."""

    after: Callable[[Draw], Sequence[bytes]] = lambda _: ()
    is_cut: bool = True
    end: str = "closes"
    last: bytes | None = b"0\r\n\r\n"
    """End of the body; None if the body has no length, so that it ends with the connection."""


FAULTS: Final[Mapping[str, Fault]] = {
    "body ends": Fault(),
    "connection ends": Fault(last=None),
    "connection ends in a chunk": Fault(last=b"20\r\ndata"),
    "reset": Fault(end="resets", last=b""),
    "silence": Fault(end="waits", last=b""),
    "error event": Fault(lambda _: [ERROR]),
    "half an event": Fault(lambda draw: [CHAT_DELTA[: draw.randrange(8, len(CHAT_DELTA) - 20)]]),
    "garbage": Fault(lambda _: [b"<html><h1>502 Bad Gateway</h1></html>\n\n"]),
    "no [DONE]": Fault(lambda _: [CHAT_LAST], is_cut=False),
    "[DONE] twice": Fault(lambda _: [CHAT_LAST, CHAT_END, CHAT_END], is_cut=False),
    "none": Fault(lambda _: [CHAT_LAST, CHAT_END], is_cut=False),
}
"""What happens after some events of an answer, before its finish reason unless the answer is whole."""


def faults(count: int, kinds: Sequence[str] = tuple(FAULTS)) -> list[Answer]:
    """Return a number of answers of each kind."""
    draw, made = Draw(SEED), []
    for kind in kinds:
        fault = FAULTS[kind]
        for _ in range(count):
            events = [CHAT_FIRST, *[CHAT_DELTA] * draw.randint(1, 30), *fault.after(draw)]
            if fault.last is None:
                writes = [HEAD.replace(b"transfer-encoding: chunked\r\n", b""), *_pieces(draw, b"".join(events), 200)]
            else:
                writes = _writes(draw, events, fault.last)
            made.append(Answer(kind, writes, fault.end, fault.is_cut))
    return made


class Provider:
    """A provider that sends the answer with the number that a request names."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers

    @contextlib.asynccontextmanager
    async def serve(self) -> Any:
        """Serve, and yield the port."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answered(reader, writer):
                pass
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether another one may follow."""
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET "):
            writer.write(MODELS)
            return True
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        number = re.search(rb"answer (\d+)", body)
        if number is None:
            return False
        answer = self._answers[int(number[1])]
        for data in answer.writes:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0)
        if answer.end == "waits":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), GIVE_UP_S + 1)
        elif answer.end == "resets":
            await asyncio.sleep(0.05)  # else the proxy may lose what was sent before
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


class Seen(NamedTuple):
    """What a client saw of an answer."""

    text: str = ""
    ends: int = 0
    """Events that say that the answer is complete."""
    errors: int = 0
    """Events that say that it is not, among them those that are not JSON, and responses that are not a stream."""
    dones: int = 0
    http: str = "ends"
    """How the response ends: `ends`, `breaks`, or `waits` until the client gave up."""


def read_chat(messages: Sequence[str]) -> Seen:
    """Return what a client of the Chat API sees."""
    text, ends, errors = "", 0, 0
    for message in messages:
        if message == "[DONE]":
            continue
        try:
            event = json.loads(message)
        except ValueError:
            event = {"error": "not JSON"}
        errors += "error" in event
        for choice in event.get("choices", ()):
            text += choice.get("delta", {}).get("content") or ""
            ends += bool(choice.get("finish_reason"))
    return Seen(text, ends, errors, messages.count("[DONE]"))


def read_public(messages: Sequence[str]) -> Seen:
    """Return what a page sees: its terminal event is `final` or `error`."""
    events = [json.loads(message) for message in messages]
    finals = [event["final"] for event in events if event["kind"] == "final"]
    text = "".join(event["delta"] for event in events if event["kind"] == "message.delta")
    ends = sum(final["status"] == "completed" for final in finals)
    errors = sum(event["kind"] == "error" for event in events) + len(finals) - ends
    return Seen(text + "\n".join(final.get("response_text") or "" for final in finals), ends, errors, ends)


class View(NamedTuple):
    """A kind of client: the path and the body of its requests, and how it reads messages."""

    path: str
    body: Callable[[str], dict[str, Any]]
    read: Callable[[Sequence[str]], Seen]


CHAT: Final = View(
    "/v1/chat/completions",
    lambda text: {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]},
    read_chat,
)
PUBLIC: Final = View("/api/v1/chat/stream", lambda text: {"message": text}, read_public)


async def see(session: aiohttp.ClientSession, port: int, view: View, number: int) -> Seen:
    """Request an answer, and return what the client saw."""
    raw, http = bytearray(), "ends"
    url, body = f"http://127.0.0.1:{port}{view.path}", view.body(f"answer {number}")
    try:
        async with asyncio.timeout(GIVE_UP_S), session.post(url, json=body) as response:
            if response.content_type != "text/event-stream":
                return Seen(errors=1)
            async for data in response.content.iter_any():
                raw += data
    except TimeoutError:
        http = "waits"
    except aiohttp.ClientError:
        http = "breaks"
    events = raw.decode(errors="replace").replace("\r\n", "\n").split("\n\n")[:-1]  # the last one has no end
    lines = ([line[5:].strip() for line in event.split("\n") if line.startswith("data:")] for event in events)
    return view.read(["\n".join(data) for data in lines if data])._replace(http=http)


TWICE, COMPLETE, MISSING, BROKEN, TOLD, RIGHT = "twice", "complete", "missing", "broken", "told", "right"
"""What a client makes of an end. The first three are wrong; a broken connection is an error of the HTTP client."""
VERDICTS: Final = (COMPLETE, MISSING, TWICE, BROKEN)
"""Columns of the table."""


def verdict(seen: Seen, *, is_cut: bool) -> str:
    """Return what a client makes of the end of an answer."""
    if seen.ends + seen.errors > 1 or seen.dones > 1:
        return TWICE
    if seen.errors:
        return TOLD if is_cut else MISSING
    if seen.http == "breaks":
        return BROKEN
    if seen.http == "waits":
        return MISSING
    if is_cut:
        return COMPLETE if seen.ends or seen.dones else MISSING
    return RIGHT if seen.ends and seen.dones else MISSING


def parts(secret: str, text: str) -> tuple[bool, bool]:
    """Return whether a text has the whole secret, and whether it has half of it in one piece."""
    size = (len(secret) + 1) // 2
    pieces = {secret[at : at + size] for at in range(len(secret) - size + 1)}
    return secret in text, any(piece in text for piece in pieces)


class Counts(NamedTuple):
    """What the clients of one program saw."""

    whole: Counter[str]
    """Format -> answers from which a client could read the secret."""
    half: Counter[str]
    """Format -> answers from which it could read half of it or more."""
    ends: Mapping[str, Counter[str]]
    """Fault or format -> verdict -> answers."""


async def count(port: int, view: View, answers: Sequence[Answer]) -> Counts:
    """Request each answer from a program, and return what its clients saw."""
    counts = Counts(Counter(), Counter(), defaultdict(Counter))
    turns = asyncio.Semaphore(AT_A_TIME)

    async def ask(number: int, answer: Answer) -> None:
        async with contextlib.nullcontext() if answer.end == "waits" else turns:
            seen = await see(session, port, view, number)
            if (
                answer.secret and verdict(seen, is_cut=False) != RIGHT
            ):  # the machine was so busy that something took too long
                seen = await see(session, port, view, number)
        if answer.secret:
            whole, half = parts(answer.secret, seen.text)
            counts.whole[answer.kind] += whole
            counts.half[answer.kind] += half
        counts.ends[answer.kind][verdict(seen, is_cut=answer.is_cut)] += 1

    headers = {"authorization": "Bearer none"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(force_close=True)) as session:
        await asyncio.gather(*(see(session, port, view, 0) for _ in range(AT_A_TIME)))  # the first ones are slow
        await asyncio.gather(*(ask(number, answer) for number, answer in enumerate(answers)))
    return counts


def table(found: Mapping[str, Counts], answers: Sequence[Answer]) -> str:
    """Return the counts as a table in Markdown."""
    planted = [answer.kind for answer in answers if answer.secret]
    common = sum(kind in COMMON for kind in planted)
    cut = sum(answer.is_cut for answer in answers)
    heads = ["program", f"secrets of four formats, of {common}", f"of three more, of {len(planted) - common}"]
    heads += [
        f"cut answers that look complete, of {cut}",
        f"no end, of {len(answers)}",
        "two ends",
        "connection broken",
    ]
    lines = [heads, ["---"] * len(heads)]
    for name, counts in found.items():
        cells = [
            f"{sum(whole[kind] for kind in kinds)} ({sum(half[kind] for kind in kinds)})"
            for whole, half in [(counts.whole, counts.half)]
            for kinds in (COMMON, SECRETS.keys() - COMMON)
        ]
        lines.append([name, *cells, *(str(sum(counts.ends.values(), Counter())[one]) for one in VERDICTS)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
