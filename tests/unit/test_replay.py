"""Golden replay: cases, their settings, and how a difference is shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from projector import UsageError
from projector.core.sse import BOM
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS
from projector.recording import replay

CREATED: Final = '{"type": "response.created", "response": {"id": "resp_1", "status": "queued"}}\n'
DIALECT: Final = "public_sse_v1"
SEPARATED: Final = b'"k":"a\xe2\x80\xa8\xc2\x85b","kind"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one case and no settings."""
    source = tmp_path / "openai_responses" / "one.ndjson"
    source.parent.mkdir()
    source.write_text(CREATED)
    return tmp_path


def settings(folder: Path, text: str) -> Path:
    (folder / replay.CASES_FILE).write_text(text)
    return folder


def only(folder: Path) -> replay.Case:
    cases = replay.load_cases(folder)
    assert [case.name for case in cases] == ["one"]
    return cases[0]


def played(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in replay.play(only(folder), DIALECT).splitlines()]


def test_a_case_without_settings(folder: Path) -> None:
    case = only(folder)
    assert case == replay.Case("one", "openai_responses", folder / "openai_responses/one.ndjson", replay.CaseSettings())
    said = played(folder)
    assert [event["kind"] for event in said] == ["lifecycle", "error"]
    assert {event["server_timestamp"] for event in said} == {replay.CLOCK}
    assert {event["stream_id"] for event in said} == {replay.STREAM_ID}


@pytest.mark.parametrize(
    ("table", "member", "value"),
    [
        ('clock = "2025-01-02T03:04:05.678+02:00"', "server_timestamp", "2025-01-02T01:04:05.678Z"),
        pytest.param(
            'clock = "2025-01-02T03:04:05"', "server_timestamp", "2025-01-02T03:04:05.000Z", id="UTC-by-default"
        ),
        ('stream_id = "stream_7"', "stream_id", "stream_7"),
        ('context = { agent = "triage" }', "agent", "triage"),
        ('policy = { registered = [{ value = "resp_1" }] }', "response_id", "redacted_1"),
        ('policy = "strict"', "response_id", "resp_1"),
    ],
)
def test_settings_of_a_case(folder: Path, table: str, member: str, value: str) -> None:
    assert played(settings(folder, f"[cases.one]\n{table}"))[0][member] == value
    assert played(settings(folder, f"[defaults]\n{table}"))[0][member] == value


def test_a_case_overrides_the_defaults(folder: Path) -> None:
    said = played(settings(folder, '[defaults]\nclose = "upstream_reset"\n[cases.one]\nclose = "server_shutdown"'))
    assert said[-1]["error"]["code"] == "server_shutdown"  # type: ignore[index]  # an object


def test_d35_host_events_need_the_setting_of_the_case(folder: Path) -> None:
    with (folder / "openai_responses/one.ndjson").open("a") as source:
        source.write('{"type": "projector.cancel"}\n')
    assert played(folder)[-1]["kind"] == "error"
    assert played(settings(folder, "[cases.one]\nhost_events = true"))[-1]["kind"] == "final"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cases.one", "cases.toml: invalid TOML at"),
        ("[case.one]\nrun = true", r"cases.toml: unknown table `case`; known: `cases`, `defaults`"),
        ("cases = 3", r"cases.toml: expected tables `\[defaults\]` and `\[cases.NAME\]`"),
        ("defaults = 3", r"cases.toml: expected tables `\[defaults\]` and `\[cases.NAME\]`"),
        ("[cases]\none = 3", "cases.toml: `one`: "),
        (
            "[cases.one]\nclok = 1",
            "cases.toml: `one`: `clok` is unknown; did you mean `clock`.; known: `about`, `clock`",
        ),
        ("[defaults]\nfoo = 1", "cases.toml: `defaults`: `foo` is unknown; known: `about`, `clock`"),
        ("[defaults]\nrun = 'yes please'", "cases.toml: `defaults`: `run` must be true or false"),
        ("[cases.one]\nclose = 'NOT A CODE'", "cases.toml: `one`: `close`: unknown fault `NOT A CODE`"),
        (
            "[cases.one]\nclose = 'upstream_odd'",
            "cases.toml: `one`: `close`: unknown fault `upstream_odd`; known: `upstream_",
        ),
        ("[cases.one]\nclock = 'noon'", "cases.toml: `one`: `clock`: expected an ISO 8601 time"),
        ("[defaults]\nclock = 'noon'", "cases.toml: `defaults`: `clock`: expected an ISO 8601 time"),
        (
            "[cases.one]\nprofile = { think = 1 }",
            "cases.toml: `one`: profile of `openai_responses`: `think` is unknown",
        ),
        ("[cases.one]\npolicy = 'strit'", "cases.toml: `one`: `policy`: unknown policy `strit`; did you mean `strict`"),
        ("[cases.one]\ncontext = { stream_id = 'x' }", "cases.toml: `one`: `context.stream_id` is unknown"),
        (
            "[cases.one]\ncontext = { agnt = 'x' }",
            "cases.toml: `one`: `context.agnt` is unknown; did you mean `context.agent`.$",
        ),
        ("[cases.one]\npolicy = { image = 'host' }", "cases.toml: `one`: `image` is unknown"),
        ("[cases.two]", "cases.toml: no input for `two`: restore it, or remove its table"),
    ],
)
def test_invalid_settings(folder: Path, text: str, message: str) -> None:
    settings(folder, text)
    with pytest.raises(UsageError, match=message):
        played(folder)


def test_invalid_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not found; expected a folder of cases"):
        replay.load_cases(tmp_path / "nowhere")
    with pytest.raises(
        UsageError,
        match=r"expected inputs at `.*/<provider>/<case>\.ndjson`; folders: openai_resp.*, anthropic_messages_input, ",
    ):
        replay.load_cases(tmp_path)
    (tmp_path / "openai_responses").mkdir()
    (tmp_path / "openai_responses" / "one.ndjson").write_text(CREATED)
    with pytest.raises(UsageError, match=r"openai_responses: expected the folder above: `.*invalid_folders\d*`$"):
        replay.load_cases(tmp_path / "openai_responses")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("two.ndjson", r"`.*/two\.ndjson`: expected inputs in the folder of a provider: openai_responses, openai_chat"),
        ("openai-responses/two.ndjson", r"unknown folder in `.*`: `openai-responses`; known: `openai_responses`, "),
        ("public_sse/two.ndjson", r"unknown folder in `.*`: `public_sse`; known: `public_sse_v1`, "),
        ("openai_responses/team/two.ndjson", r"team/two\.ndjson`: expected it directly in `.*/openai_responses`: a "),
        ("notes/about.md", None),
        ("notes/drafts/two.ndjson", None),
        pytest.param("openai_responses/.one.ndjson", None, id="a-copy-of-an-editor"),
        pytest.param("public_sse_v1/._two.ndjson", None, id="attributes-of-macOS"),
        ("openai_responses/.ipynb_checkpoints/one.ndjson", None),
    ],
)
def test_files_outside_known_folders_are_rejected(folder: Path, name: str, message: str | None) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(CREATED)
    if message is None:
        assert replay.orphans(folder, [only(folder)], update=True) == []
        assert (folder / name).exists()
        return
    with pytest.raises(UsageError, match=message):
        replay.load_cases(folder)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
@pytest.mark.parametrize("name", [replay.CASES_FILE, "openai_responses/two.ndjson", f"{DIALECT}/one.ndjson"])
def test_what_is_no_file_is_refused(folder: Path, name: str, make: Callable[[Path], object]) -> None:
    """A FIFO would be read for ever, and without its settings a case has other golden files."""
    (folder / DIALECT).mkdir()
    make(folder / name)
    with pytest.raises(UsageError, match=rf"{Path(name).name}`?: expected a file$"):
        replay.load_cases(folder)


def test_settings_that_are_not_utf8(folder: Path) -> None:
    (folder / replay.CASES_FILE).write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"cases\.toml: expected UTF-8"):
        replay.load_cases(folder)


@pytest.mark.parametrize(
    ("change", "what", "diff"),
    [
        pytest.param(lambda golden: golden.unlink(), "golden is missing", "", id="missing"),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes().replace(b'"queued"', b'"failed"')),
            "differs",
            '-{"event_id":1,"response_id":"resp_1","kind":"lifecycle","status":"failed"}\n'
            '+{"event_id":1,"response_id":"resp_1","kind":"lifecycle","status":"queued"}\n',
            id="a-member",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes().replace(b"12:00", b"13:00")),
            "differs",
            '"server_timestamp":"2025-12-15T13:00:00.000Z"',
            id="a-member-that-every-line-repeats",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes() + golden.read_bytes()),
            "differs",
            '-{"event_id":1,',
            id="more-lines",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes().replace(b"\n", b"\r\n")),
            "differs",
            "only line ends differ",
            id="line-ends",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(b"\xff" + golden.read_bytes()), "differs", "-\ufffd{", id="no-utf-8"
        ),
        pytest.param(
            lambda golden: golden.write_bytes(b"x" * 9_000), "differs", "-" + "x" * 499 + "\n", id="a-long-line-is-cut"
        ),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes().replace(b'"kind"', SEPARATED)),
            "differs",
            '"k":"a<U+2028><U+0085>b","kind":"lifecycle"',
            id="separators-in-a-text-begin-no-line",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(BOM + golden.read_bytes()),
            "differs",
            "-<U+FEFF>{",
            id="a-mark",
        ),
        pytest.param(
            lambda golden: golden.write_bytes(golden.read_bytes().replace(b'"kind"', b'"k":"a\\u2028b","kind"')),
            "differs",
            '"k":"a\\u2028b","kind":"lifecycle"',
            id="an-escape-is-no-separator",
        ),
    ],
)
def test_a_golden_that_differs(folder: Path, change: Callable[[Path], object], what: str, diff: str) -> None:
    case = only(folder)
    golden = folder / DIALECT / "one.ndjson"
    written = replay.Difference("one", DIALECT, "golden is missing")
    assert replay.compare(folder, case, DIALECT, update=True) == written
    assert replay.compare(folder, case, DIALECT, update=False) is None
    change(golden)
    found = replay.compare(folder, case, DIALECT, update=False)
    assert found is not None
    assert (found.case, found.dialect, found.what) == ("one", DIALECT, what)
    assert diff in found.diff
    assert replay.compare(folder, case, DIALECT, update=True) == replay.Difference("one", DIALECT, what)  # type: ignore[arg-type]  # a literal
    assert replay.compare(folder, case, DIALECT, update=True) is None
    assert replay.compare(folder, case, DIALECT, update=False) is None


@pytest.mark.parametrize(("every", "rows"), [(1, 2 * 20 + 2), (4, replay.ROWS_SHOWN)], ids=["all", "here-and-there"])
def test_a_diff_is_bounded(folder: Path, every: int, rows: int) -> None:
    delta = '{"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "some"}\n'
    (folder / "openai_responses" / "one.ndjson").write_text(CREATED + delta * 4_000)
    replay.compare(folder, only(folder), DIALECT, update=True)
    golden = folder / DIALECT / "one.ndjson"
    lines = golden.read_bytes().splitlines(keepends=True)
    golden.write_bytes(
        b"".join(line.replace(b"some", b"s") if at % every == 0 else line for at, line in enumerate(lines))
    )
    found = replay.compare(folder, only(folder), DIALECT, update=False)
    assert found is not None
    shown = found.diff.splitlines()
    assert [len([row for row in shown if row[:1] == sign and '"message.delta"' in row]) > 10 for sign in "-+"] == [
        True,
        True,
    ]
    assert rows <= len(shown) <= rows + 10
    assert " more lines" in found.diff


def test_a_difference_far_in_a_line_is_shown(folder: Path) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "x" * 900 + "new"}
    (folder / "openai_responses" / "one.ndjson").write_text(CREATED + json.dumps(delta) + "\n")
    replay.compare(folder, only(folder), DIALECT, update=True)
    golden = folder / DIALECT / "one.ndjson"
    golden.write_bytes(golden.read_bytes().replace(b"xnew", b"xold"))
    found = replay.compare(folder, only(folder), DIALECT, update=False)
    assert found is not None
    rows = [row for row in found.diff.splitlines() if '"message.delta"' in row]
    assert [(row[0], row[-5:]) for row in rows] == [("-", 'old"}'), ("+", 'new"}')]
    assert all(len(row) <= replay.LINE_SHOWN_CHARS for row in rows)


def test_the_end_of_a_line_that_is_cut_off_is_shown(folder: Path) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "x" * 900 + "end"}
    (folder / "openai_responses" / "one.ndjson").write_text(CREATED + json.dumps(delta) + "\n")
    replay.compare(folder, only(folder), DIALECT, update=True)
    golden = folder / DIALECT / "one.ndjson"
    whole = golden.read_bytes()
    golden.write_bytes(whole[: whole.index(b"xend") + 1])
    found = replay.compare(folder, only(folder), DIALECT, update=False)
    assert found is not None
    rows = [row for row in found.diff.splitlines() if '"message.delta"' in row]
    assert [(row[0], row[-6:]) for row in rows] == [("-", "xxxxxx"), ("+", 'xend"}')]


def test_a_golden_without_input(folder: Path) -> None:
    cases = replay.load_cases(folder)
    for dialect in DIALECTS:
        replay.compare(folder, cases[0], dialect, update=True)
    assert replay.orphans(folder, cases, update=False) == []
    stray = folder / DIALECT / "gone.ndjson"
    stray.touch()
    assert replay.orphans(folder, cases, update=False) == [replay.Difference("gone", DIALECT, "input is missing")]
    assert replay.orphans(folder, cases, update=True) == [replay.Difference("gone", DIALECT, "input is missing")]
    assert not stray.exists()
    recorded = folder / "anthropic_messages" / "recorded.ndjson"
    recorded.write_bytes(b"{}\n")
    stray.touch()
    with pytest.raises(
        UsageError, match=r"recorded\.ndjson`: expected an input in `anthropic_messages_input`: move it"
    ):
        replay.orphans(folder, cases, update=True)
    assert recorded.exists(), "a recording in the wrong folder is no golden"
    assert stray.exists(), "nothing is removed before an error"
    assert (folder / DIALECT / "one.ndjson").is_file()


@pytest.mark.parametrize("name", ["other/one", "other/One", "openai_responses/ONE"])
def test_names_are_unique(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On macOS and Windows `One` and `one` have one golden file."""
    (folder / "other").mkdir()
    (folder / f"{name}.ndjson").write_text(CREATED)
    monkeypatch.setattr(replay, "PROVIDERS", {**PROVIDERS, "other": PROVIDERS["openai_responses"]})
    with pytest.raises(UsageError, match=r"`(?i:one)`: another case has this name, apart from capitals"):
        replay.load_cases(folder)
