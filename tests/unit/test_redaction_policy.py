"""The policy: every limit of the contract under its name, unknown names rejected, secrets never shown."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from projector import UsageError, build_pipeline
from projector._resources import resource
from projector.contracts import limits
from projector.redaction.explain import rules
from projector.redaction.policy import Limits, Policy, PolicyError
from projector.redaction.redactor import Redactor
from projector.redaction.search import Search
from tests.rule_samples import FORMATS

SECRET = "correct-horse-battery"


FIXED = {"NAME_MAX_CHARS", "DELTA_MAX_CHARS", "NOTICES_MAX_ITEMS", "REQUEST_TEXT_MAX_CHARS", "REQUEST_ITEMS_MAX"}
FIXED |= {"EVENT_LINES_MAX", "EVENT_VALUES_MAX", "EVENT_TEXT_MAX_BYTES", "LENIENT_MAX_BYTES", "TEXT_MAX_CHARS"}
"""Limits of frames, events and requests that no host may change."""


def test_each_number_of_the_contract_is_a_limit_with_its_default() -> None:
    numbers = {name.lower(): value for name, value in vars(limits).items() if name.isupper() and name not in FIXED}
    assert Limits().model_dump() == numbers


def test_a_table_of_a_configuration_file_is_a_policy() -> None:
    table = tomllib.loads("""
        sensitive_keys_add = ["ssn"]
        sensitive_keys_remove = ["page_token"]
        formats_off = ["bearer"]
        images = "host"
        reasoning = "off"
        encrypted_reasoning = true
        [limits]
        url_max_chars = 100
        [[registered]]
        id = "stripe"
        value = "correct-horse-battery"
    """)
    policy = Policy.load(table)
    assert policy.limits.url_max_chars == 100
    assert policy.formats_off == {"bearer"}
    assert policy.registered[0].value.get_secret_value() == SECRET
    assert (policy.images, policy.reasoning, policy.encrypted_reasoning) == ("host", "off", True)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"limit": {}}, "`limit` is unknown; did you mean `limits`?"),
        ({"limits": {"url_max_char": 1}}, "`limits.url_max_char` is unknown; did you mean `limits.url_max_chars`?"),
        ({"formats_off": ["github-tokens"]}, "unknown format `github-tokens`; did you mean `github-token`?"),
        ({"formats_off": ["no-such-format"]}, "`no-such-format`; `projector explain rules` lists the formats"),
        ({"text": "email"}, '`text`: expected `off`, `credentials`, or a table of classes such as { email = "mask" }'),
        ({"text": ["email"]}, "`text`: expected `off`, `credentials`, or a table"),
        ({"text": {"phone": "hide"}}, "`text.phone` must be 'mask', 'block', 'report' or 'off'"),
        ({"text": {"emial": "mask"}}, "unknown class of text `emial`; did you mean `email`?"),
        ({"text": {"all": "mask"}}, "unknown class of text `all`; known: `credentials`, `email`, "),
        ({"base": "strikt"}, "unknown policy `strikt`; did you mean `strict`?"),
        ({"base": [SECRET]}, "`base` must be the name of a ready policy"),
        ({"registered": [{"ident": "x", "value": SECRET}]}, "`registered[0].ident` is unknown"),
        ({"registered": [{"value": "abc"}]}, "`registered[0].value`: a registered value needs at least 4"),
        ({"registered": [{"value": "  abc  "}]}, "a registered value needs at least 4"),
        ({"registered": [{"id": "a b", "value": SECRET}]}, "registered[0].id"),
        ({"registered": [{"value": [SECRET]}]}, "registered[0].value"),
        ({"registered": [{"value": "${VAULT_TOKEN}"}]}, "`registered[0]`: expected the value itself: a reference"),
        ({"registered": SECRET}, "`registered`: expected a list, even for one entry"),
        ({"rules": "ours.toml"}, "`rules`: expected a list, even for one entry"),
        ({"rules": Path("ours.toml")}, "`rules`: expected a list, even for one entry"),
        ({"formats_off": {"bearer": True}}, "`formats_off`: expected a list, even for one entry"),
        ({"sensitive_keys_remove": 3}, "`sensitive_keys_remove`: expected a list, even for one entry"),
        ({"sensitive_keys_add": [""]}, "`sensitive_keys_add[0]`: expected a word with letters or digits"),
        ({"sensitive_keys_add": ["pin", " -_."]}, "`sensitive_keys_add[1]`: expected a word with letters or digits"),
        ({"sensitive_keys_remove": ["_"]}, "`sensitive_keys_remove[0]`: expected a word with letters or digits"),
        ({"images": "none"}, "images"),
        ({"limits": {"url_max_chars": 0}}, "limits.url_max_chars"),
        ({"limits": {"frame_max_bytes": 1}}, "`limits.frame_max_bytes` must be at least 4096"),
        ({"limits": {"image_chunk_max_chars": 10}}, "limits.image_chunk_max_chars"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(table: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(table)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_list_in_keywords_is_one(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="expected a list, even for one entry"):
        Policy(rules=tmp_path / "ours.toml")  # type: ignore[arg-type]  # without the comma of a tuple
    words = {"pin": 1, "otp": 2}
    assert Policy(sensitive_keys_add=words.keys()).sensitive_keys_add == ("pin", "otp")  # type: ignore[arg-type]  # of the same entries


def test_a_registered_value_is_never_shown() -> None:
    policy = Policy.load({"registered": [{"id": "stripe", "value": SECRET}]})
    shown = [repr(policy), str(policy), policy.model_dump_json(), str(rules(policy))]
    assert [text for text in shown if SECRET in text] == []
    with pytest.raises(ValidationError) as caught:
        Policy.model_validate({"registered": [{"id": 5, "value": SECRET}], "images": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", sorted(path.stem for path in (resource("redaction") / "policies").glob("*.toml")))
def test_a_ready_policy_is_loaded_by_name(name: str) -> None:
    table = tomllib.loads((resource("redaction") / "policies" / f"{name}.toml").read_text())
    assert Policy.named(name) == Policy.load(name) == Policy.load(table)

    class Settings(BaseModel):
        policy: Policy

    assert Settings.model_validate({"policy": name}).policy == Policy.named(name)


def test_the_default_policy_is_the_default_and_the_strict_one_withholds_more() -> None:
    strict = Policy.named("strict")
    assert Policy.named("default") == Policy()
    assert (strict.reasoning, strict.images) == ("off", "host")
    tree: object = {"card_number": 4, "sshKey": "x"}
    assert Redactor(strict).json(tree, string_max_chars=9).value == dict.fromkeys(
        ("card_number", "sshKey"), "<redacted>"
    )
    with pytest.raises(UsageError, match="unknown policy `strikt`; did you mean `strict`"):
        Policy.named("strikt")


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_table_may_begin_with_a_ready_policy(kind: Callable[[list[str]], object]) -> None:
    strict = Policy.named("strict")
    assert Policy.load({"base": "strict"}) == strict
    own = Policy.load({"base": "strict", "images": "chunks", "sensitive_keys_add": kind(["badge"]), "echo": "pass"})
    assert own.sensitive_keys_add == (*strict.sensitive_keys_add, "badge")
    assert (own.images, own.echo, own.reasoning) == ("chunks", "pass", "off")


def test_policies_that_search_for_the_same_share_what_is_compiled() -> None:
    one, other = (
        Policy.load({"sensitive_keys_add": ["ssn"]}),
        Policy.load({"sensitive_keys_add": ["ssn"], "images": "host"}),
    )
    assert Search(one).finds == Search(other).finds
    assert Search(one).finds != Search(Policy()).finds


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("off", {}),
        ("credentials", {"credentials": "mask"}),
        ({"email": "mask"}, {"credentials": "mask", "email": "mask"}),
        ({"email": "block", "credentials": "report"}, {"credentials": "report", "email": "block"}),
        ({"email": "report", "credentials": "off"}, {"email": "report"}),
        ({"email": "off"}, {"credentials": "mask"}),
    ],
    ids=str,
)
def test_a_table_of_classes_adds_to_credentials(text: object, actions: dict[str, str]) -> None:
    policy = Policy.load({"text": text})
    assert policy.text_actions == actions
    assert hash(policy) == hash(Policy.load({"text": text}))
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", policy=policy)
    assert pipeline.feed(b"") == b""


def test_a_policy_cannot_be_changed() -> None:
    policy = Policy()
    with pytest.raises(ValidationError):
        policy.images = "host"
    with pytest.raises(ValidationError):
        policy.limits.url_max_chars = 5


def test_the_rules_can_be_printed() -> None:
    policy = Policy.load({"formats_off": ["bearer"], "sensitive_keys_add": ["ssn"], "sensitive_keys_remove": ["token"]})
    rows = {(rule.group, rule.name): rule.about for rule in rules(policy)}
    assert rows["keys", "ssn"] == "added by the policy"
    assert rows["keys", "token"] == "not sensitive, by the policy"
    assert rows["formats", "bearer"] == "switched off by the policy"
    assert all(("formats", row.name) in rows for row in FORMATS)
    assert all(rows.values())


TOKEN = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" + "ABCD"
COMMAND = {"cmd": f"use {TOKEN} {SECRET}", "password": "abcDEF123456"}
SENT = {"cmd": f"use {TOKEN} [REDACTED:vault]", "password": "abcDEF123456"}
CLEAN = {"cmd": "use <redacted> [REDACTED:vault]", "password": "<redacted>"}


@pytest.mark.parametrize("dialect", ["responses", "public_sse_v1"])
@pytest.mark.parametrize("step", [1, 9, 1000])
@pytest.mark.parametrize(
    ("item", "member", "shown"),
    [
        ({"type": "function_call", "name": "run", "arguments": json.dumps(COMMAND)}, "arguments", SENT),
        ({"type": "function_call", "name": "show", "arguments": json.dumps(COMMAND)}, "arguments", CLEAN),
        ({"type": "mcp_call", "name": "run", "arguments": json.dumps(COMMAND)}, "arguments", CLEAN),
        ({"type": "custom_tool_call", "name": "run", "input": COMMAND["cmd"]}, "input", SENT["cmd"]),
        ({"type": "custom_tool_call", "name": "show", "input": COMMAND["cmd"]}, "input", CLEAN["cmd"]),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": [COMMAND["cmd"]]}}, "action", SENT["cmd"]),
        ({"type": "local_shell_call", "call_id": "c", "action": {"command": [COMMAND["cmd"]]}}, "", CLEAN["cmd"]),
    ],
    ids=lambda value: f"{value['type']} {value.get('name')}" if isinstance(value, dict) and "type" in value else "",
)
def test_arguments_as_sent(item: dict[str, Any], member: str, shown: Any, step: int, dialect: str) -> None:
    """Only registered values are withheld from the arguments of the tools that a policy names."""
    table = {"arguments_as_sent": ["run", "shell_call"], "registered": [{"id": "vault", "value": SECRET}]}
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect, policy=Policy.load(table))
    item = {"id": "i", **item}
    place = {"output_index": 0, "item_id": "i"}
    begun = {**item, member: ""} if item["type"].endswith(("n_call", "m_tool_call")) else item
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": 0, "item": begun}]
    if member in {"arguments", "input"} and item["type"] != "mcp_call":
        name = "function_call_arguments" if member == "arguments" else "custom_tool_call_input"
        text = item[member]
        deltas = [text[at : at + step] for at in range(0, len(text), step)]
        events += [{"type": f"response.{name}.delta", **place, "delta": delta} for delta in deltas]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    written = b"".join(pipeline.feed(b"data: " + json.dumps(event).encode() + b"\n\n") for event in events)
    written += pipeline.close()
    text = shown if isinstance(shown, str) else shown["cmd"]
    is_shown = dialect == "responses" or item["type"].endswith(("n_call", "m_tool_call", "mcp_call"))
    assert (json.dumps(text)[1:-1].encode() in written.replace(b'\\"', b'"')) == is_shown
    assert (TOKEN.encode() in written) == (is_shown and TOKEN in text)
    assert SECRET.encode() not in written
