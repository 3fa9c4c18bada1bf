"""The arguments of a call: the emitted text, the parsed object, and the notices (D23 to D26)."""

from __future__ import annotations

import json

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

GITHUB = "ghp" + "_" + "a1B2c3D4e5F6" * 3
OPENAI = "sk-" + "proj-" + "a1B2c3D4e5F6" * 3
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END"
POLICY = Policy.load({"registered": [{"id": "pin", "value": "4711"}, {"id": "pass", "value": "correct horse"}]})
REDACTOR = Redactor(POLICY)


def nested(value: object, levels: int) -> str:
    """JSON in a string of JSON, nested to a depth."""
    text = json.dumps(value)
    for _ in range(levels):
        text = json.dumps({"in": text})
    return text


def nested_lists(text: str, levels: int) -> str:
    """The same with lists."""
    for _ in range(levels):
        text = json.dumps([text])
    return json.dumps({"in": [text]})


SAID = {
    "empty": ("", "", None),
    "blank": (" \n", " \n", None),
    "an object": ('{"a":1}', '{"a":1}', {"a": 1}),
    "spelling stays": (
        '{ "\\u0061" : 1.50E+3 ,\t"b":[ ] }',
        '{ "\\u0061" : 1.50E+3 ,\t"b":[ ] }',
        {"a": 1500.0, "b": []},
    ),
    "not an object": ("[1, null]", "[1, null]", None),
    "a number alone": ("-0.5e-3", "-0.5e-3", None),
    "a credential as a key, first in a value that is withheld": (
        f'{{"password": {{"{GITHUB}": 1}}, "{GITHUB}": 2}}',
        '{"password": "<redacted>", "<redacted>": 2}',
        {"password": "<redacted>", "<redacted>": 2},
    ),
    "a sensitive key": (
        '{"api_key": "abc", "b": 1}',
        '{"api_key": "<redacted>", "b": 1}',
        {"api_key": "<redacted>", "b": 1},
    ),
    "its key with escapes": (
        '{"\\u0061pi\\u005fkey":"abc"}',
        '{"\\u0061pi\\u005fkey":"<redacted>"}',
        {"api_key": "<redacted>"},
    ),
    "a number under it": ('{"token":12.5,"a":1}', '{"token":"<redacted>","a":1}', {"token": "<redacted>", "a": 1}),
    "literals under it": (
        '{"token":null, "token2": true,"password":"" }',
        '{"token":null, "token2": true,"password":"" }',
        {"token": None, "token2": True, "password": ""},
    ),
    "a container under it": (
        '{"secret":{"a":["x",{"b":"}]"}]},"c":[{"token":[[1]]},2]}',
        '{"secret":"<redacted>","c":[{"token":"<redacted>"},2]}',
        {"secret": "<redacted>", "c": [{"token": "<redacted>"}, 2]},
    ),
    "counts are none": (
        '{"max_tokens":5,"a_tokens":-1}',
        '{"max_tokens":5,"a_tokens":-1}',
        {"max_tokens": 5, "a_tokens": -1},
    ),
    "counts that are text": (
        '{"max_tokens":"5","n_tokens":"x5","a_tokens":"4711"}',
        '{"max_tokens":"5","n_tokens":"<redacted>","a_tokens":"<redacted>"}',
        {"max_tokens": "5", "n_tokens": "<redacted>", "a_tokens": "<redacted>"},
    ),
    "lines of a private key": (
        json.dumps({"a": ["x", *PEM.split("\n")[:2], "abc"], "b": ["c"]}),
        '{"a": ["x", "<redacted>", "<redacted>", "<redacted>"], "b": ["c"]}',
        ...,
    ),
    "an option and its value": (
        '{"argv":["mysql","--password","hunter","-v"],"b":["--password",{"a":"b"},"c"]}',
        '{"argv":["mysql","--password","<redacted>","-v"],"b":["--password",{"a":"b"},"c"]}',
        ...,
    ),
    "json behind a credential": (
        json.dumps([GITHUB, json.dumps({"token": "abc"})]),
        json.dumps(["<redacted>", json.dumps({"token": "<redacted>"})]),
        None,
    ),
    "a header as a pair": ('[["X-Api-Key","a1b2c3d4"]]', '[["X-Api-Key","<redacted>"]]', None),
    "a member that names a value": (
        '[{"name":"Authorization","in":{"value":"b"},"value":"Basic x"},{"value":"c"}]',
        '[{"name":"Authorization","in":{"value":"b"},"value":"<redacted>"},{"value":"c"}]',
        None,
    ),
    "duplicate keys": (
        '{"token":"x","token":"y"}',
        '{"token":"<redacted>","token":"<redacted>"}',
        {"token": "<redacted>"},
    ),
    "a credential": (f'{{"a":"x {GITHUB} y"}}', '{"a":"x <redacted> y"}', {"a": "x <redacted> y"}),
    "a credential with escapes": (
        '{"a":"' + OPENAI.replace("-", "\\u002d").replace("a", "\\u0061", 1) + '"}',
        '{"a":"<redacted>"}',
        {"a": "<redacted>"},
    ),
    "a credential in a key": (f'{{"{GITHUB}":1}}', '{"<redacted>":1}', {"<redacted>": 1}),
    "a private key": (json.dumps({"a": PEM, "b": 1}), '{"a": "<redacted>", "b": 1}', {"a": "<redacted>", "b": 1}),
    "a registered value": ('{"a":"the correct horse!"}', '{"a":"the [REDACTED:pass]!"}', {"a": "the [REDACTED:pass]!"}),
    "a registered number": (
        '{"a":4711,"b":47110}',
        '{"a":"[REDACTED:pin]","b":47110}',
        {"a": "[REDACTED:pin]", "b": 47110},
    ),
    "a registered key": ('{"4711":0}', '{"[REDACTED:pin]":0}', {"[REDACTED:pin]": 0}),
    "a registered value that begins in a long credential": (
        json.dumps({"a": [GITHUB + "a1B2" * 20 + "corr", "ect horse!"]}),
        '{"a": ["<redacted>", "[REDACTED:pass]!"]}',
        ...,
    ),
    "json in a string": (
        nested({"token": "abc", "n": 1}, 1),
        nested({"token": "<redacted>", "n": 1}, 1),
        {"in": '{"token": "<redacted>", "n": 1}'},
    ),
    "three levels of json": (nested({"token": {"a": 1}}, 3), nested({"token": "<redacted>"}, 3), ...),
    "a list under a key with escapes, in four levels of json": (
        nested(r'{"\u0070assword": ["hunter2"]}', 3),
        nested(r'{"\u0070assword": "<redacted>"}', 3),
        ...,
    ),
    "a registered number in other spellings": (
        '{"a":[4711.0,-4711,4711e0,47.11e2]}',
        '{"a":["[REDACTED:pin]","[REDACTED:pin]","[REDACTED:pin]","[REDACTED:pin]"]}',
        {"a": ["[REDACTED:pin]"] * 4},
    ),
    "credentials are found at any level": (nested({"a": GITHUB}, 5), nested({"a": "<redacted>"}, 5), ...),
    "a list in a string": (
        json.dumps({"a": ' [{"password": 5}]'}),
        json.dumps({"a": ' [{"password": "<redacted>"}]'}),
        {"a": ' [{"password": "<redacted>"}]'},
    ),
    "lines of json": (
        json.dumps({"a": '{"b":1}\n{"token":1}\n'}),
        json.dumps({"a": '{"b":1}\n{"token":"<redacted>"}\n'}),
        {"a": '{"b":1}\n{"token":"<redacted>"}\n'},
    ),
    "a fragment of json": (
        json.dumps({"a": '"password": "hunter2", "b": 1'}),
        json.dumps({"a": '"password": "<redacted>", "b": 1'}),
        {"a": '"password": "<redacted>", "b": 1'},
    ),
    "json that breaks off inside a secret": (
        json.dumps({"a": '{"password": hunter2, "b": "x"}', "c": 1}),
        json.dumps({"a": '{"password": <redacted>', "c": 1}),
        {"a": '{"password": <redacted>', "c": 1},
    ),
    "json that breaks off in a withheld value": (
        json.dumps({"a": '{"password": {"b" 1}, "c": "x"}'}),
        json.dumps({"a": '{"password": "<redacted>"'}),
        {"a": '{"password": "<redacted>"'},
    ),
    "json that breaks off elsewhere": (
        json.dumps({"a": '{"b": 1, c: "x", password: "hunter2"}'}),
        json.dumps({"a": '{"b": 1, c: "x", password: "<redacted>"}'}),
        {"a": '{"b": 1, c: "x", password: "<redacted>"}'},
    ),
    "a private key in broken json": (
        json.dumps({"a": '{"key": "' + PEM + '"}', "b": 1}),
        json.dumps({"a": '{"key": "<redacted>', "b": 1}),
        {"a": '{"key": "<redacted>', "b": 1},
    ),
    "a document that breaks off around one that broke off": (
        json.dumps({"a": '{"b": "{\\"password\\": oops\n more"}', "c": 1}),
        json.dumps({"a": '{"b": "{\\"password\\": <redacted>', "c": 1}),
        {"a": '{"b": "{\\"password\\": <redacted>', "c": 1},
    ),
    "a document that breaks off in a credential": (
        json.dumps({"a": '{"b": "' + GITHUB + '\n", "c": "x"}', "d": 1}),
        json.dumps({"a": '{"b": "<redacted>\n", "c": "x"}', "d": 1}),
        {"a": '{"b": "<redacted>\n", "c": "x"}', "d": 1},
    ),
    "a document that breaks off in a key": (
        json.dumps({"a": '{"my password\n": "hunter2"}', "b": 1}),
        json.dumps({"a": '{"my password<redacted>', "b": 1}),
        {"a": '{"my password<redacted>', "b": 1},
    ),
    "a document encoded twice": (
        json.dumps({"a": json.dumps(GITHUB)}),
        json.dumps({"a": '"<redacted>"'}),
        {"a": '"<redacted>"'},
    ),
    "surrogate pairs": ('{"a":"\\ud83d\\ude00 \\ud83d"}', '{"a":"\\ud83d\\ude00 \\ud83d"}', {"a": "😀 �"}),
    "long digits": ('{"a":123456789012345678901}', '{"a":123456789012345678901}', {"a": "123456789012345678901"}),
    "the key of a JSON web key": (
        '{"kty":"oct","k":"' + "a1B2c3D4e5F6" * 4 + '"}',
        '{"kty":"oct","k":"<redacted>"}',
        {"kty": "oct", "k": "<redacted>"},
    ),
    "members with the names of those of a JSON web key": (
        '{"k":"a note","d":["2026-11-27"],"q":5}',
        '{"k":"a note","d":["2026-11-27"],"q":5}',
        {"k": "a note", "d": ["2026-11-27"], "q": 5},
    ),
    "a credential under a key that was shown": (
        '[{"a":"x","b":1},{"a":"' + GITHUB + '","b":1}]',
        '[{"a":"x","b":1},{"a":"<redacted>","b":1}]',
        None,
    ),
    "lists in strings, which are plain text beyond six levels": (
        nested_lists('{"password":12}', 5),
        nested_lists('{"password":"<redacted>"}', 5),
        ...,
    ),
    "one more list in a string": (nested_lists('{"password":12}', 6), nested_lists('{"password":12}', 6), ...),
    "our own marks": ('{"token":"<redacted>"}', '{"token":"<redacted>"}', {"token": "<redacted>"}),
}


@pytest.mark.parametrize(("text", "said", "parsed"), SAID.values(), ids=SAID.keys())
def test_what_is_said_and_parsed(text: str, said: str, parsed: object) -> None:
    result = REDACTOR.arguments(text)
    assert result.text.value == said
    stream = REDACTOR.argument_stream()
    assert "".join(stream.feed(char).value for char in text) + stream.finish().rest.value == said
    expected = json.loads(said) if parsed is ... else parsed
    assert (result.json.value if result.json else None) == expected


BROKEN = {
    "text behind the value": ('{"a":1} x', '{"a":1} '),
    "a second value": ('{"a":1}{"b":2}', '{"a":1}'),
    "no value": ("hello", ""),
    "a wrong literal": ('{"a":trve}', '{"a":tr'),
    "NaN": ('{"a":NaN}', '{"a":'),
    "Infinity": ('{"a":-Infinity}', '{"a":-'),
    "a leading zero": ('{"a":01}', '{"a":0'),
    "a point without digits": ('{"a":1.}', '{"a":1.'),
    "a trailing comma": ('{"a":1,}', '{"a":1,'),
    "a comma in an array": ("[1,]", "[1,"),
    "a missing comma before a known key": ('{"a":1,"b":2 "a":3}', '{"a":1,"b":2 '),
    "two commas before a known key": ('{"a":1,,"a":2}', '{"a":1,'),
    "a comma before the first key": ('[{"a":1},{,"a":2}]', '[{"a":1},{'),
    "a missing colon": ('{"a" 1}', '{"a" '),
    "single quotes": ("{'a':1}", "{"),
    "the wrong closer": ('{"a":[1}', '{"a":[1'),
    "a control character": ('{"a":"b\x01c"}', '{"a":"b'),
    "a raw line end": ('{"a":"b\nc"}', '{"a":"b'),
    "an unknown escape": ('{"a":"b\\q"}', '{"a":"b'),
    "a bad code point": ('{"a":"b\\u12g4"}', '{"a":"b'),
    "a secret in broken text": ('{"token":tru,"b":"x"}', '{"token":"<redacted>"'),
    "cut in a value": ('{"a":"b', '{"a":"b'),
    "cut in an escape": ('{"a":"b\\u00', '{"a":"b\\u00'),
    "cut in a secret": ('{"token":"abc', '{"token":"<redacted>"'),
    "cut in a credential": (f'{{"a":"{GITHUB[:10]}', '{"a":"<redacted>'),
    "cut in a registered value": ('{"a":"correct ho', '{"a":"<redacted>'),
    "cut in a registered number": ('{"a":4711', '{"a":"[REDACTED:pin]"'),
    "cut in a number": ('{"a":47', '{"a":47'),
    "cut before a value": ('{"password":', '{"password":'),
    "cut in json in a string": ('{"a":"{\\"token\\":\\"ab', '{"a":"{\\"token\\":\\"<redacted>\\"'),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_text_that_is_not_json_ends_where_it_was_safe(text: str, said: str) -> None:
    result = REDACTOR.arguments(text)
    assert result.text.value == said
    assert result.json is None
    assert "truncated" in [notice.type for notice in result.text.notices]


PLACES = {
    "members": ('{"a":{"x.y":{"token":1}},"api_key":2}', ['.a["x.y"].token', ".api_key"], []),
    "entries": ('{"a":[1,{"b":[0,0,"' + GITHUB + '"]}]}', [".a[1].b[2]"], []),
    "a withheld container": ('{"secret":{"a":{"b":1}}}', [".secret"], []),
    "json in a string": (json.dumps({"a": [json.dumps({"token": 1})]}), [".a[0]"], []),
    "a key": (f'{{"a":{{"{GITHUB}":1}}}}', ['.a["<redacted>"]'], []),
    "a duplicate that lost": ('{"a":"' + GITHUB + '","a":"fine"}', [], [""]),
    "a duplicate that won": ('{"token":1,"token":2}', [".token"], []),
    "a container that lost": ('{"a":{"token":1},"a":2,"token":3}', [".token"], [""]),
    "not an object": (f'["{GITHUB}"]', [], [""]),
    "a long path": ('{"a":' * 3 + '{"' + "k" * 200 + '":{"token":1}}' + "}" * 3, [".a.a.a"], []),
    "more than 32": (json.dumps({f"token{n}": n for n in range(40)}), [*(f".token{n}" for n in range(31)), ""], []),
    "more than 64": (json.dumps({f"token{n}": n for n in range(90)}), [*(f".token{n}" for n in range(31)), ""], []),
}


@pytest.mark.parametrize(("text", "in_json", "in_text"), PLACES.values(), ids=PLACES.keys())
def test_notices_name_places_that_exist(text: str, in_json: list[str], in_text: list[str]) -> None:
    result = REDACTOR.arguments(text)
    assert [n.path for n in result.json.notices if n.type == "redacted"] == in_json if result.json else in_json == []
    assert [n.path for n in result.text.notices if n.type == "redacted"] == in_text


def limited(**limits: int) -> Redactor:
    return Redactor(Policy.load({"limits": limits}))


def test_a_mark_that_a_limit_cuts_off_has_its_notice_in_the_text() -> None:
    result = limited(arguments_json_string_max_chars=20).arguments(json.dumps({"a": f"{'b ' * 12}{GITHUB}"}))
    assert result.json is not None
    assert [(notice.type, notice.path) for notice in result.json.notices] == [("truncated", ".a")]
    assert [(notice.type, notice.path) for notice in result.text.notices] == [("redacted", "")]


CUT = {
    "in a word": ('{"a":"bcdef"}', 8, '{"a":"bc'),
    "before an escape": ('{"a":"b\\u0041c"}', 9, '{"a":"b'),
    "behind an escape": ('{"a":"b\\u0041c"}', 13, '{"a":"b\\u0041'),
    "a character behind an escape": ('{"a":"b\\u0041cd"}', 14, '{"a":"b\\u0041c'),
    "before a pair of escapes": ('{"a":"\\ud83d\\ude00"}', 13, '{"a":"'),
    "before a mark": ('{"a":"' + GITHUB + '"}', 10, '{"a":"'),
    "before a mark that stands for a value": ('{"token":5,"b":1}', 14, '{"token":"'),
    "exactly at the end": ('{"a":1}', 7, '{"a":1}'),
}


@pytest.mark.parametrize(("text", "limit", "said"), CUT.values(), ids=CUT.keys())
def test_the_limit_counts_output_and_cuts_no_escape_and_no_mark(text: str, limit: int, said: str) -> None:
    redactor = limited(arguments_text_max_chars=limit)
    result = redactor.arguments(text)
    assert result.text.value == said
    assert result.json is not None
    assert ("truncated" in [n.type for n in result.text.notices]) is (len(said) < len(text))
    stream = redactor.argument_stream()
    deltas = [stream.feed(char).value for char in text]
    end = stream.finish()
    assert "".join(deltas) + end.rest.value == said
    assert end.arguments == result


def test_what_stands_behind_the_limit_is_parsed_all_the_same() -> None:
    text = json.dumps({"a": "b" * 50, "token": "abc", "c": GITHUB})
    result = limited(arguments_text_max_chars=10).arguments(text)
    assert result.json is not None
    expected: object = {"a": "b" * 50, "token": "<redacted>", "c": "<redacted>"}
    assert result.json.value == expected
    assert [n.path for n in result.json.notices] == [".token", ".c"]
    assert [n.type for n in result.text.notices] == ["truncated"]


def test_the_parsed_object_is_bounded() -> None:
    text = json.dumps(
        {"a": "b" * 30, "c": list(range(9)), "d": {"e": {"f": {"g": 1}}}, "k" * 30: 1, "h": "-" * 18 + GITHUB}
    )
    redactor = limited(
        arguments_json_string_max_chars=20, container_max_entries=5, container_max_depth=3, key_max_chars=10
    )
    result = redactor.arguments(text)
    assert result.text.value == text.replace(GITHUB, "<redacted>") and result.json is not None  # noqa: PT018
    expected: object = {
        "a": "b" * 20,
        "c": [0, 1, 2, 3, 4],
        "d": {"e": {"f": {}}},
        "k" * 10: 1,
        "h": "-" * 18,
    }
    assert result.json.value == expected
    assert [(n.type, n.path) for n in result.json.notices] == [
        ("truncated", ".a"),
        ("truncated", ".c"),
        ("truncated", ".d.e.f"),
        ("truncated", ".kkkkkkkkkk"),
        ("truncated", ".h"),
    ]
    assert [n.type for n in result.text.notices] == ["redacted"]


def test_what_no_parser_reads_stays_text() -> None:
    text = '{"a":' * 30_000 + "1" + "}" * 30_000  # too deep
    result = limited(arguments_text_max_chars=1_000_000).arguments(text)
    assert result.text.value == text
    assert result.json is None
    assert [n.type for n in result.text.notices] == ["truncated"]


def test_arguments_without_end_are_not_kept_for_ever() -> None:
    stream = limited(arguments_text_max_chars=10).argument_stream()
    stream.feed('{"a":"')
    for _ in range(9):
        assert stream.feed("b" * 1024 * 1024).value in {"b" * 4, ""}
    stream.feed('"}')
    assert stream.finish().arguments.json is None
    assert len(stream._late.text) <= 5 * 1024 * 1024


@pytest.mark.parametrize(
    ("document", "said"),
    [('{"a":"heron","mill":1} rest', '{"a":"[REDACTED:pin]'), ('{"a":"x her"}', '{"a":"x her"}')],
    ids=["whole", "its beginning"],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_registered_value_with_the_syntax_of_json(document: str, said: str, size: int) -> None:
    stream = Redactor(Policy.load({"registered": [{"id": "pin", "value": 'heron","mill'}]})).argument_stream()
    text = json.dumps({"a": document})
    shown = "".join(stream.feed(text[at : at + size]).value for at in range(0, len(text), size))
    assert shown + stream.finish().rest.value == json.dumps({"a": said})


def test_halves_of_a_surrogate_pair_are_joined() -> None:
    stream = REDACTOR.argument_stream()
    said = [stream.feed(part).value for part in ['{"a":"\ud83d', "\ude00 \ud83d", 'x\ude00"}', "\ud83d"]]
    end = stream.finish()
    assert said == ['{"a":"', "😀 ", '�x�"}', ""]
    assert end.rest.value == ""
    assert end.arguments.text.value == '{"a":"😀 �x�"}'


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            ['{"token":', '"ab', 'c","b":"', GITHUB, '"} x', "y"],
            [[], ["redacted"], [], ["redacted"], ["truncated"], []],
        ),
        (["hello", "y"], [["truncated"], []]),
    ],
)
def test_a_delta_says_what_is_missing_from_it(parts: list[str], expected: list[list[str]]) -> None:
    stream = REDACTOR.argument_stream()
    assert [[n.type for n in stream.feed(part).notices] for part in parts] == expected
