"""The tables as text (docs/mapping.md, `projector explain`)."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from projector.cli import main
from projector.cli import mapping as explain
from projector.core.handlers import DROPPED, HANDLERS, HOST_HANDLERS
from projector.core.handlers.items import FINISHERS, ITEMS_ONLY
from projector.core.intake import STEERING
from projector.core.sse import NO_EVENTS, REASONS
from projector.providers import PROVIDERS

CHAT_READ: Final = PROVIDERS["openai_chat"].tables().read
CHAT_DROPPED: Final = PROVIDERS["openai_chat"].tables().dropped


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        pytest.param(
            "response.output_text.delta",
            ["response.output_text.delta: message.delta", "  Emit the part of the delta that can be shown now."],
            id="handled",
        ),
        pytest.param(
            "response.audio.delta", ["response.audio.delta: dropped", "  the contract has no audio"], id="dropped"
        ),
        pytest.param(
            "projector.context",
            [
                "projector.context: no event by itself",
                "  " + explain.summary(HOST_HANDLERS["projector.context"]),
            ],
            id="D35-host",
        ),
        pytest.param(
            "response.reasoning_text.done",
            [
                "response.reasoning_text.done: in dialects: reasoning.delta, reasoning.done",
                "  " + explain.summary(HANDLERS["response.reasoning_text.done"]),
            ],
            id="private",
        ),
        pytest.param(
            "projector.branch_end",
            ["projector.branch_end: recording directive", "  " + explain.summary(STEERING["projector.branch_end"])],
            id="D35-recorded",
        ),
        pytest.param(
            "message",
            ["message (item): output_item.added, output_item.done", "  " + explain.summary(FINISHERS["message"])],
            id="item",
        ),
        pytest.param(
            "shell_call",
            ["shell_call (item): output_item.added and output_item.done only", "  no public tool type"],
            id="D22-item-only",
        ),
        pytest.param(
            "delta.refusal",
            ["delta.refusal: read", "  `response.refusal.delta`"],
            id="chunk-field",
        ),
        pytest.param(
            "tool_calls",
            ["delta.tool_calls: read", "  " + CHAT_READ["delta"]["tool_calls"]],
            id="chunk-field-without-its-object",
        ),
        pytest.param(
            "system_fingerprint",
            ["chunk.system_fingerprint: not read", "  " + CHAT_DROPPED["chunk"]["system_fingerprint"]],
            id="chunk-field-that-is-not-read",
        ),
        pytest.param("response.output_text.detla", [], id="D30-unknown"),
    ],
)
def test_explain(name: str, lines: list[str]) -> None:
    assert explain.explain(name) == lines


NAMES = [*HANDLERS, *DROPPED, *HOST_HANDLERS, *STEERING, *FINISHERS, *ITEMS_ONLY, *NO_EVENTS, *REASONS]


def test_everything_is_explained_once() -> None:
    lines = [line for line in explain.everything() if not line.startswith("  ")]
    heads = [line.split(":")[0].removesuffix(" (item)") for line in lines]
    assert sorted(heads[: len(NAMES)]) == sorted(NAMES)
    tables = [provider.tables() for provider in PROVIDERS.values()]
    chat = [
        f"{place}.{name}"
        for each in tables
        for rows in (each.read, each.dropped)
        for place in rows
        for name in rows[place]
    ]
    assert heads[len(NAMES) : len(NAMES) + len(chat)] == chat
    assert lines[len(NAMES) + len(chat) :] == explain.explain("rules")
    assert all(line.strip().rstrip(".") for line in explain.everything())


def test_the_mapping_has_a_row_for_every_name() -> None:
    mapping = explain.mapping_markdown()
    events = mapping.partition("## Finish reasons")[0]
    cells = re.findall(r"^- (`.*?): ", events, re.MULTILINE)
    named = Counter(name for cell in cells for name in re.findall(r"`([^`]+)`", cell))
    assert {name: named[name] for name in [*HANDLERS, *DROPPED, *HOST_HANDLERS, *ITEMS_ONLY] if named[name] != 1} == {}
    assert mapping.endswith(f"{explain.UNKNOWN}.\n")
    assert "\n\n\n" not in mapping


@pytest.mark.parametrize(
    "handler", list(dict.fromkeys([*HANDLERS.values(), *HOST_HANDLERS.values(), *FINISHERS.values()]))
)
def test_every_handler_has_a_summary(handler: object) -> None:
    assert explain.summary(handler).endswith(".")  # type: ignore[arg-type]  # handlers and finishers alike


TOKEN: Final = "ghp" + "_" + "a1B2c3D4" * 5
FILES: Final = {
    "text": (
        f"one\ntwo {TOKEN}\nthree",
        ["2: text: github-token (GitHub documentation: about authentication, token formats)"],
    ),
    "a key that only its characters tell": (
        "one\ntwo k_" + "a1B2c3D4" * 4 + "a1B2 three",
        ["2: text: mailsac-key (Mailsac documentation: API keys)"],
    ),
    "clean text": ("one\ntwo", ["nothing is withheld"]),
    "JSON": (
        '{"a": [{"db_pass": "x", "password": null}], "url": "at AKIA' + "A" * 16 + '"}',
        [
            "1: .a[0].db_pass: pass (curl(1), PHP mail and database settings)",
            "1: .url: aws-access-key-id (AWS IAM User Guide: IAM identifiers, unique ID prefixes)",
        ],
    ),
    "JSON lines": (
        '{"delta": "a"}\n\n{"delta": "' + TOKEN + '"}\n',
        ["3: .delta: github-token (GitHub documentation: about authentication, token formats)"],
    ),
    "an address": ('{"url": "https://me:hunter2x9@example.org/a"}', ["1: .url: url-password (RFC 3986 section 3.2.1)"]),
    "JSON in a string": (
        '{"arguments": "{\\"client_secret\\": \\"x\\"}"}',
        ["1: .arguments.client_secret: secret (RFC 6749 section 2.3.1)"],
    ),
}


@pytest.mark.parametrize(("content", "lines"), FILES.values(), ids=FILES.keys())
def test_what_is_withheld_in_a_file_is_explained_without_the_value(
    content: str, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(content)
    assert main(["explain", "--redaction", str(tmp_path / "file")]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == lines
    assert TOKEN not in printed


def test_standard_input_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"password": "x"}')))
    assert main(["explain", "--redaction", "-"]) == 0
    assert capsys.readouterr().out.startswith("1: .password: ")


def test_a_file_that_cannot_be_read_is_an_error_of_usage(tmp_path: Path) -> None:
    assert main(["explain", "--redaction", str(tmp_path / "none")]) == 2


CONFIG: Final = """
[upstreams.default]
api_key = "${SOME_KEY}"

[agents.support]
upstream = "default"
model = "m"

[agents.support.policy]
text = { email = "mask" }
sensitive_keys_add = ["badge"]
registered = [{id = "vault", value = "four green mills"}]
"""
SECOND: Final = """
[agents.sales]
upstream = "default"
model = "m"
policy = "strict"
"""
POLICIES: Final = {
    "only policy": (CONFIG, []),
    "chosen policy": (CONFIG + SECOND, ["--policy", "agents.support"]),
    "chosen path": (CONFIG + SECOND, ["--policy", "agents.support.policy"]),
}


@pytest.mark.parametrize(("config", "options"), POLICIES.values(), ids=POLICIES.keys())
def test_the_policy_of_a_configuration_is_applied(
    config: str,
    options: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_KEY", "quiet-heron-7741")
    (tmp_path / "ours.toml").write_text(config)
    log = "four green mills, quiet-heron-7741, jane@fernhill.example"
    (tmp_path / "file").write_text(f'{{"badge": "b-12", "log": "{log}"}}')
    args = ["--redaction", str(tmp_path / "file"), "--config", str(tmp_path / "ours.toml")]
    assert main(["explain", *args, *options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1: .badge: sensitive_keys_add (added by the policy)",
        "1: .log: vault (registered by the host)",
        "1: .log: configured secret (the configuration of the server)",
    ]  # tool data has no classes: the address is shown there
    (tmp_path / "file").write_text(log)
    assert main(["explain", *args, *options]) == 0
    assert "1: text: email (RFC 5321" in capsys.readouterr().out
    assert main(["explain", "rules", *args[2:], *options]) == 0
    assert "keys: badge: added by the policy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "`--policy`: expected `agents.support` or `agents.sales` or `passthrough`"),
        (
            ["--policy", "agents.other"],
            "`--policy`: expected `agents.support` or `agents.sales` or `passthrough`",
        ),
    ],
)
def test_one_of_several_policies_must_be_chosen(
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_KEY", "quiet-heron-7741")
    (tmp_path / "ours.toml").write_text(CONFIG + SECOND)
    assert main(["explain", "rules", "--config", str(tmp_path / "ours.toml"), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_is_for_redaction_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "message", "--config", str(tmp_path / "ours.toml")]) == 2
    assert "`--config`: expected `--redaction FILE` or `rules` with it" in capsys.readouterr().err
