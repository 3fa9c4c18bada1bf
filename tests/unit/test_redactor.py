"""Results of each function of the redactor: ids, labels, texts, addresses, trees, image data, streams."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from projector.redaction.clean import Cleaned, CleanText, Notice, bounded, notice
from projector.redaction.policy import Policy
from projector.redaction.redactor import CLEAN_NAMES_MAX, Redactor

GITHUB = "ghp" + "_" + "a1B2c3D4e5F6" * 3
REGISTERED = [{"id": "pass", "value": "correct horse"}, {"value": "4711"}, {"id": "blob", "value": '{"a": [1]}'}]
PLAIN = Redactor(Policy())
KNOWING = Redactor(Policy.load({"registered": REGISTERED, "sensitive_keys_add": ["ssn"], "text": "off"}))


def types(cleaned: Cleaned[CleanText]) -> list[str]:
    return [n.type for n in cleaned.notices]


@pytest.mark.parametrize(
    ("redactor", "text", "said"),
    [
        (PLAIN, "call_abc", "call_abc"),
        (PLAIN, "", ""),
        (PLAIN, "x" * 300, "x" * 256),
        (PLAIN, "a\ud800b", "a�b"),
        (PLAIN, GITHUB, "redacted_1"),
        (KNOWING, "id-4711", "redacted_1"),
        (KNOWING, "correct horse", "redacted_1"),
        (KNOWING, "y" * 250 + "correct horse", "redacted_1"),
        (KNOWING, "y" * 5_000 + "correct horse", "y" * 256),
    ],
)
def test_identifier(redactor: Redactor, text: str, said: str) -> None:
    assert redactor.identifier(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stream_" + "4711" * 8, "stream_" + "4711" * 8),  # random: the value is in it by chance
        ("stream_" + "4711" * 7, "redacted_1"),
        ("stream_" + "4711" * 9, "redacted_1"),
        ("stream-4711", "redacted_1"),
        ("", ""),
    ],
)
def test_the_id_of_a_stream(text: str, said: str) -> None:
    assert KNOWING.stream_identifier(text) == said


@pytest.mark.parametrize(
    ("text", "max_chars", "said", "noticed"),
    [
        ("weather in Rome", 256, "weather in Rome", []),
        ("abcdef", 3, "abc", ["truncated"]),
        (f"x {GITHUB} y", 256, "x <redacted> y", ["redacted"]),
        (f"x {GITHUB} y", 5, "x ", ["truncated"]),
        (f"x {GITHUB} y", 12, "x <redacted>", ["redacted", "truncated"]),
        (f"{'x ' * 9}{GITHUB}", 10, "x " * 5, ["truncated"]),
        ("the correct horse", 256, "the [REDACTED:pass]", ["redacted"]),
        ("the correct horse", 10, "the ", ["truncated"]),
        ("bad \ud800", 256, "bad �", []),
    ],
)
def test_label(text: str, max_chars: int, said: str, noticed: list[str]) -> None:
    cleaned = KNOWING.label(text, max_chars)
    assert (cleaned.value, types(cleaned)) == (said, noticed)


TEXTS = {
    "plain": ("nothing here", "nothing here"),
    "json": ('{"token": 1, "a": "b"}', '{"token": "<redacted>", "a": "b"}'),
    "an added key": ('[{"customer_ssn": [1, 2]}]', '[{"customer_ssn": "<redacted>"}]'),
    "code": (
        'client = Client(api_key="abc")\nrun(max_tokens=5)',
        'client = Client(api_key="<redacted>")\nrun(max_tokens=5)',
    ),
    "an error message": (
        f"Incorrect API key provided: {GITHUB}. Check it.",
        "Incorrect API key provided: <redacted>. Check it.",
    ),
    "a command": ("mysql --db-password hunter2 -u me", "mysql --db-password <redacted> -u me"),
    "a header in a command": (
        "curl -H 'Authorization: Basic YTpi' https://example.com",
        "curl -H 'Authorization: <redacted>' https://example.com",
    ),
    "a cookie": ("Cookie: sid=1; other=2\r\nHost: x", "Cookie: <redacted>\r\nHost: x"),
    "an address": ("see postgres://app:p@ss@db/x?y", "see postgres://app:<redacted>/x?y"),
    "a web token of thousands of characters": (f"see eyJhbGciOi{'a1' * 900}.eyJ{'b2' * 900}.c3 x", "see <redacted> x"),
    "a registered value beats a context": ("Bearer correct horse", "Bearer [REDACTED:pass]"),
    "a registered value beats a format": (f"AKIA{'A' * 12}4711{'A' * 8} x", "<redacted> x"),
    "a registered value in a private key": ("-----BEGIN PRIVATE KEY-----\n4711\nabc", "<redacted>"),
    "a registered value that is json": ('x {"a": [1]} y', "x [REDACTED:blob] y"),
    "a registered value that json would cut": ('["x", {"a": [1]}, {"b": 2}]', '["x", [REDACTED:blob]'),
    "the beginning of a registered value": ('{"a": [2]} x', '{"a": [2]} x'),
    "a registered value written with escapes": (r"say {\"a\": [1]} now", "say [REDACTED:blob] now"),
    "a registered value written with escapes twice": (r"say {\\\"a\\\": [1]} now", "say [REDACTED:blob] now"),
    "a registered value in percent-encoding": ("x?q=correct%20horse&b=1", "x?q=[REDACTED:pass]&b=1"),
    "a registered value in percent-encoding twice": (
        "see %257B%2522a%2522: %255B1%255D%257D x",
        "see [REDACTED:blob] x",
    ),
    "a registered value in entities": ("see &#123;&quot;a&quot;: &#91;1]} x", "see [REDACTED:blob] x"),
}


@pytest.mark.parametrize(("text", "said"), TEXTS.values(), ids=TEXTS.keys())
def test_text_and_code_are_cleaned_alike(text: str, said: str) -> None:
    cleaned = KNOWING.text(text)
    stream = KNOWING.code_stream()
    streamed = "".join(stream.feed(char).value for char in text) + stream.close().value
    assert (cleaned.value, streamed) == (said, said)
    assert types(cleaned) == ([] if said == text else ["redacted"])


def test_long_text_is_read_no_further_than_it_is_said() -> None:
    cleaned = PLAIN.text("word " * 10_000_000, 100)
    assert (cleaned.value, types(cleaned)) == ("word " * 20, ["truncated"])


URLS = {
    "web": ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d", []),
    "upper case": ("HTTPS://example.com", "HTTPS://example.com", []),
    "blanks before": (" https://example.com", "https://example.com", []),
    "script": ("javascript:alert(1)", "<redacted>", ["redacted"]),
    "data": ("data:text/html,x", "<redacted>", ["redacted"]),
    "file": ("file:///etc/passwd", "<redacted>", ["redacted"]),
    "no address": ("example.com", "<redacted>", ["redacted"]),
    "empty": ("", "<redacted>", ["redacted"]),
    "user and password": ("https://me:pass@example.com/", "https://<redacted>@example.com/", ["redacted"]),
    "user alone": ("https://key@example.com/", "https://<redacted>@example.com/", ["redacted"]),
    "an at sign in the password": ("https://a:b@c@example.com", "https://<redacted>@example.com", ["redacted"]),
    "a backslash ends the host": ("https://example.com\\@evil", "https://example.com\\@evil", []),
    "an at sign in the path": ("https://example.com/@me", "https://example.com/@me", []),
    "a sensitive parameter": (
        "https://example.com/?a=1&api_key=xyz&b=2",
        "https://example.com/?a=1&api_key=<redacted>&b=2",
        ["redacted"],
    ),
    "its name encoded": (
        "https://example.com/?api%5Fkey=xyz",
        "https://example.com/?api%5Fkey=<redacted>",
        ["redacted"],
    ),
    "its name encoded twice": (
        "https://example.com/?api%255Fkey=xyz",
        "https://example.com/?api%255Fkey=<redacted>",
        ["redacted"],
    ),
    "part of its name encoded twice": (
        "https://example.com/?to%256Ben=xyz",
        "https://example.com/?to%256Ben=<redacted>",
        ["redacted"],
    ),
    "an address in a parameter": (
        "https://example.com/?next=https%253A%252F%252Fb.example%252F%253Faccess_token%253Dxyz123",
        "https://example.com/?next=<redacted>",
        ["redacted"],
    ),
    "a code": (
        "https://example.com/?code=4a8xYz12&state=1",
        "https://example.com/?code=<redacted>&state=1",
        ["redacted"],
    ),
    "a code of a country": ("https://example.com/?code=de", "https://example.com/?code=de", []),
    "a key": ("https://example.com/?key=a1B2c3D4", "https://example.com/?key=<redacted>", ["redacted"]),
    "a key that is a word": ("https://example.com/?key=authors", "https://example.com/?key=authors", []),
    "a session": ("https://example.com/?sid=a1B2c3D4", "https://example.com/?sid=<redacted>", ["redacted"]),
    "a code of six digits": ("https://example.com/?otp=481923", "https://example.com/?otp=<redacted>", ["redacted"]),
    "a signature": (
        "https://d1.example.com/x?Expires=9&Signature=a1B2~c3D4__&Key-Pair-Id=K2",
        "https://d1.example.com/x?Expires=9&Signature=<redacted>&Key-Pair-Id=K2",
        ["redacted"],
    ),
    "a page": ("https://example.com/?page_token=3", "https://example.com/?page_token=3", []),
    "in the fragment": (
        "https://example.com/#access_token=x",
        "https://example.com/#access_token=<redacted>",
        ["redacted"],
    ),
    "a credential": (f"https://example.com/{GITHUB}/x", "https://example.com/<redacted>/x", ["redacted"]),
    "a credential, encoded": (
        "https://example.com/?q=" + GITHUB.replace("_", "%5F"),
        "https://example.com/?q=<redacted>",
        ["redacted"],
    ),
    "a registered value, encoded": (
        "https://example.com/correct%20horse",
        "https://example.com<redacted>",
        ["redacted"],
    ),
    "a registered value": ("https://example.com/?q=4711", "https://example.com/?q=<redacted>", ["redacted"]),
    "a presigned address": (
        "https://s3.example.com/x?X-Amz-Signature=" + "0123456789abcdef" * 4,
        "https://s3.example.com/x?X-Amz-Signature=<redacted>",
        ["redacted"],
    ),
    "a credential that is encoded four times": (
        f"https://example.com/?q=a&b={GITHUB.replace('_', '%2525255F')}&c",
        "https://example.com/?q=a&b=<redacted>&c",
        ["redacted"],
    ),
    "too long": ("https://example.com/" + "x" * 5000, "https://example.com/" + "x" * 4076, ["truncated"]),
}


@pytest.mark.parametrize(("url", "said", "noticed"), URLS.values(), ids=URLS.keys())
def test_url(url: str, said: str, noticed: list[str]) -> None:
    cleaned = KNOWING.url(url)
    assert (cleaned.value, types(cleaned)) == (said, noticed)


TREES: dict[str, tuple[object, object, list[tuple[str, str]]]] = {
    "scalars": ([None, True, 1, 1.5, "a"], [None, True, 1, 1.5, "a"], []),
    "not finite": ([math.nan, math.inf, -math.inf], [None, None, None], []),
    "over 64 bits": ([2**64 - 1, 2**64, -(2**63) - 1], [2**64 - 1, str(2**64), str(-(2**63) - 1)], []),
    "beyond all digits": ([10**5000], [None], [("truncated", "[0]")]),
    "a sensitive key": ({"a": {"token": [1]}}, {"a": {"token": "<redacted>"}}, [("redacted", ".a.token")]),
    "an added key": ({"SSN": 1}, {"SSN": "<redacted>"}, [("redacted", ".SSN")]),
    "counts": ({"tokens": 5, "x_tokens": ["5"]}, {"tokens": 5, "x_tokens": "<redacted>"}, [("redacted", ".x_tokens")]),
    "a credential": ([{"a.b": f"x {GITHUB}"}], [{"a.b": "x <redacted>"}], [("redacted", '[0]["a.b"]')]),
    "a credential in a key": ({GITHUB: 1}, {"<redacted>": 1}, [("redacted", '["<redacted>"]')]),
    "a registered number": (
        [4711, 47110, "4711"],
        ["<redacted>", 47110, "<redacted>"],
        [("redacted", "[0]"), ("redacted", "[2]")],
    ),
    "json in a string": (['{"token":1}'], ['{"token":"<redacted>"}'], [("redacted", "[0]")]),
    "a long string": (["x" * 60], ["x" * 50], [("truncated", "[0]")]),
    "a long key": ({"k" * 300: 1}, {"k" * 256: 1}, [("truncated", "")]),
    "surrogates": ({"\ud800": "\ud83d\ude00 \udc00"}, {"�": "😀 �"}, []),
    "tuples": ((1, (2,)), [1, [2]], []),
    "keys that are no text": ({1: 2, None: 3}, {"1": 2, "None": 3}, []),
    "a type of the host": ([object(), b"abc"], [None, None], [("redacted", "[0]"), ("redacted", "[1]")]),
    "many entries": (list(range(1001)), list(range(1000)), [("truncated", "")]),
    "many members": (dict.fromkeys(map(str, range(1001))), dict.fromkeys(map(str, range(1000))), [("truncated", "")]),
}


@pytest.mark.parametrize(("tree", "said", "noticed"), TREES.values(), ids=TREES.keys())
def test_json(tree: object, said: object, noticed: list[tuple[str, str]]) -> None:
    cleaned = KNOWING.json(tree, string_max_chars=50)
    assert cleaned.value == said
    assert [(n.type, n.path) for n in cleaned.notices] == noticed


def test_deep_trees_end_at_the_deepest_level() -> None:
    tree: object = 1
    for _ in range(200):
        tree = {"a": tree}
    cleaned = PLAIN.json(tree, string_max_chars=50)
    value: object = cleaned.value
    depth = 0
    while isinstance(value, dict) and value:
        value, depth = value["a"], depth + 1
    assert (value, depth) == ({}, 64)
    assert [(n.type, n.path) for n in cleaned.notices] == [("truncated", ".a" * 64)]


def test_many_notices_become_one_for_the_whole() -> None:
    cleaned = PLAIN.json([{"token": n} for n in range(900)], string_max_chars=50)
    assert len(cleaned.notices) == 32
    assert [n.path for n in cleaned.notices][-2:] == ["[30].token", ""]


@pytest.mark.parametrize(
    ("text", "is_base64"),
    [
        ("", True),
        ("QUJD", True),
        ("QUI=", True),
        ("QQ==", True),
        ("A" * 20_000_000, True),
        ("QUJ", False),
        ("Q===", False),
        ("QUJD\n", False),
        ("QU-_", False),
        ("QUJ\ud800", False),
        ("=QUJ", False),
        ("A" * 19_999_999 + "!", False),
    ],
    ids=lambda value: str(value)[:8],
)
def test_base64(text: str, is_base64: bool) -> None:  # noqa: FBT001  # a column of the table
    assert PLAIN.base64(text) == (text if is_base64 else None)


MESSAGES = {
    "plain": (["a ", GITHUB], ["a ", GITHUB, ""]),
    "a value": (["say correct horse!"], ["say [REDACTED:pass]!", ""]),
    "a value in pieces": (["say cor", "rect", " hor", "se!"], ["say ", "", "", "[REDACTED:pass]!", ""]),
    "almost a value": (["say correct ", "house"], ["say ", "correct house", ""]),
    "a value cut off": (["say correct h"], ["say ", "<redacted>"]),
    "two letters of one": (["to co"], ["to ", "co"]),
    "halves": (["a\ud83d", "\ude00b", "\ud83d"], ["a", "😀b", "", "�"]),
    "json that holds a value": ([r'{"x": "{\"a\": [1]}"}'], ['{"x": "[REDACTED:blob]"}', ""]),
}


@pytest.mark.parametrize(("fragments", "said"), MESSAGES.values(), ids=MESSAGES.keys())
def test_messages_lose_registered_values_only(fragments: list[str], said: list[str]) -> None:
    stream = KNOWING.message_stream()
    assert [*(stream.feed(each).value for each in fragments), stream.close().value] == said


def test_messages_without_registered_values_pass() -> None:
    stream = Redactor(Policy(text="off")).message_stream()
    fragments = ["plain", "", "é\ud83d", "\ude00", "\ud83d", "x", "\udc00"]
    assert [stream.feed(each).value for each in fragments] == ["plain", "", "é", "😀", "", "�x", "�"]
    assert stream.close() == Cleaned(CleanText(""))


def test_notices_of_streams_stand_with_the_text_that_misses_something() -> None:
    for stream in (KNOWING.message_stream(), KNOWING.code_stream()):
        told: list[Callable[[], Cleaned[CleanText]]] = [
            lambda: stream.feed("a 4711 b"),  # noqa: B023  # called in this turn of the loop
            lambda: stream.feed("c"),  # noqa: B023
            stream.close,
        ]
        assert [types(each()) for each in told] == [["redacted"], [], []]


def test_the_longest_registered_value_wins() -> None:
    redactor = Redactor(Policy.load({"registered": [{"id": "a", "value": "abcd"}, {"id": "b", "value": "abcdefg"}]}))
    stream = redactor.message_stream()
    said = [stream.feed(part).value for part in ("x abcd", "e", "fg abcde", "!")]
    assert [*said, stream.close().value] == ["x ", "", "[REDACTED:b] ", "[REDACTED:a]e!", ""]


ADJACENT = {
    "a value in two texts": (["say correct", " horse now"], ["say [REDACTED:pass]", "[REDACTED:pass] now"]),
    "a short beginning": (["cor", "rect horse"], ["[REDACTED:pass]", "[REDACTED:pass]"]),
    "three texts": (["co", "rrec", "t horse", "!"], ["[REDACTED:pass]", "[REDACTED:pass]", "[REDACTED:pass]", "!"]),
    "almost a value": (["cor", "rect house"], ["cor", "rect house"]),
    "empty texts": (["cor", "", "rect horse"], ["[REDACTED:pass]", "", "[REDACTED:pass]"]),
    "an empty text behind a long beginning": (["correct", "", " horse"], ["[REDACTED:pass]", "", "[REDACTED:pass]"]),
    "cut": (["cor", "rect horse" + "x" * 60], ["[REDACTED:pass]", "[REDACTED:pass]" + "x" * 35]),
}


@pytest.mark.parametrize(("texts", "said"), ADJACENT.values(), ids=ADJACENT.keys())
def test_registered_values_do_not_cross_from_text_to_text(texts: list[str], said: list[str]) -> None:
    assert [cleaned.value for cleaned in KNOWING.texts(texts, 50)] == said


def test_notices_are_bounded() -> None:
    many = [notice("redacted", f"[{n}]") for n in range(40)]
    assert bounded(many) == (*many[:31], notice("redacted"))
    mixed = [*many, notice("truncated", "[50]"), notice("truncated", "[51]")]
    assert bounded(mixed) == (*many[:30], notice("redacted"), notice("truncated"))
    twice = [notice("redacted", ".a"), notice("redacted", ".a")]
    assert bounded(twice) == (Notice("redacted", ".a", "Something was withheld for safety."),)


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_id_in_a_tree_has_its_notice(*, is_stream: bool) -> None:
    redactor = Redactor(Policy(), ["quay-7781"])
    found = (redactor.for_stream() if is_stream else redactor).noted_identifier("a-quay-7781")
    assert (found.value, [notice.type for notice in found.notices]) == ("redacted_1", ["redacted"])


def test_codes_are_remembered_after_many_ids() -> None:
    redactor = Redactor(Policy.load({}))
    for number in range(CLEAN_NAMES_MAX + 1):
        assert redactor.plain_name(f"req_{number}") == f"req_{number}"
    assert redactor.plain_name("server_error") in redactor._plain_names
    assert len(redactor._plain_names) <= CLEAN_NAMES_MAX
