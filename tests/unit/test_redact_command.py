"""`projector redact`: a text or a stream, cleaned with a policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from projector import cli
from projector._resources import resource

TEXT = "write to jane@example.com, card 4111 1111 1111 1111\n"
CONFIG = """
[upstreams.default]
base_url = "http://localhost:9/v1"

[agents.default]
upstream = "default"
model = "m"

[agents.default.policy]
text = {payment_card = "mask", phone = "block"}
"""
ROWS = {
    "the default policy": ([], TEXT),
    "classes of the command line": (["--text", "email"], "write to <redacted:email>, card 4111 1111 1111 1111\n"),
    "nothing": (["--text", "off"], TEXT),
    "of a configuration": (
        ["--config", "CONFIG", "--policy", "agents.default"],
        "write to jane@example.com, card <redacted:payment_card>\n",
    ),
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "c.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path / "text.txt"


@pytest.mark.parametrize(("options", "said"), ROWS.values(), ids=ROWS.keys())
def test_a_text_is_cleaned(text: Path, options: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = [str(text.parent / "c.toml") if each == "CONFIG" else each for each in options]
    assert cli.main(["redact", *options, str(text)]) == 0
    assert capfd.readouterr().out == said


def test_a_blocked_value_ends_the_text(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text.write_text("a card, and +49 171 1234567.\n", encoding="utf-8")
    assert cli.main(["redact", "--config", str(text.parent / "c.toml"), "--policy", "agents.default", str(text)]) == 1
    captured = capfd.readouterr()
    assert "phone" in captured.err
    assert "1234567" not in captured.out + captured.err


def test_the_text_before_a_blocked_value_is_written(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"harmless line {number}\n" for number in range(1, 201))
    text.write_text(f"{lines}card 4111 1111 1111 1111\nthe end\n", encoding="utf-8")
    assert cli.main(["redact", "--text", "payment_card=block", str(text)]) == 1
    captured = capfd.readouterr()
    assert captured.out == lines
    assert "line 201: blocked:" in captured.err


def test_a_reported_value_is_counted_on_standard_error(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text.write_text("call +49 171 1234567\nor +49 171 1234568, a@b.de", encoding="utf-8")
    assert cli.main(["redact", "--text", "phone=report,email", str(text)]) == 0
    captured = capfd.readouterr()
    assert captured.out == "call +49 171 1234567\nor +49 171 1234568, <redacted:email>"
    assert captured.err == "Found, not withheld: phone (2).\n"


@pytest.mark.parametrize("command", [["redact"], ["explain", "--redaction"], ["explain", "rules"]])
def test_a_policy_is_one_of_a_configuration(text: Path, command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    names = [] if command[-1] == "rules" else [str(text)]
    assert cli.main([*command, *names, "--policy", "strict"]) == 2
    assert "expected `--config FILE`" in capfd.readouterr().err


def test_an_action_of_the_command_line(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redact", "--text", "email,payment_card=block", str(text)]) == 1
    captured = capfd.readouterr()
    assert "4111" not in captured.out
    assert "blocked: a value of the class `payment_card`; the output ends before this line" in captured.err


@pytest.mark.parametrize("options", [[], ["--text", "email"]])
def test_a_registered_value_of_a_configuration(
    text: Path, options: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "quiet heron")
    config = text.parent / "c.toml"
    config.write_text(CONFIG + 'registered = [{ id = "vault", value = "${VAULT_TOKEN}" }]\n', encoding="utf-8")
    text.write_text("a quiet heron\n", encoding="utf-8")
    assert cli.main(["redact", "--config", str(config), "--policy", "agents.default", *options, str(text)]) == 0
    assert capfd.readouterr().out == "a [REDACTED:vault]\n"


def test_an_unknown_action_is_named(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redact", "--text", "email=hide", str(text)]) == 2
    assert "`--text`" in capfd.readouterr().err


def test_an_unknown_class_is_named(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redact", "--text", "emial", str(text)]) != 0
    assert "unknown class of text `emial`; did you mean `email`?" in capfd.readouterr().err


def test_a_stream_of_another_provider_has_a_hint(capfd: pytest.CaptureFixture[str]) -> None:
    stream = resource("examples_ndjson") / "openai_responses" / "chat-unicode.ndjson"
    assert cli.main(["redact", "--provider", "openai_chat", str(stream)]) == 0
    assert "it looks like `--provider openai_responses`" in capfd.readouterr().err


def test_a_stream_is_cleaned(capfd: pytest.CaptureFixture[str]) -> None:
    stream = resource("examples_ndjson") / "openai_responses" / "chat-unicode.ndjson"
    assert cli.main(["redact", "--provider", "openai_responses", str(stream)]) == 0
    assert '"kind":"final"' in capfd.readouterr().out
