"""The command line: output and exit status. Tests with pipes, signals or a terminal run it as a program."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from projector import cli
from projector._resources import resource
from projector.cli.commands import EXAMPLES as EXAMPLES_FOLDER
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.core.handlers import DROPPED
from projector.core.sse import BOM
from projector.dialects import DIALECTS
from projector.recording import Recording
from projector.recording.cases import pack, unpack

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
START: Final = (sys.executable, "-c", "import sys; from projector.cli import main; sys.exit(main())")
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""As users run it: output to a pipe is held back until it is flushed."""

CREATED: Final = b'{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}\n'
HI: Final = b'{"type":"response.output_text.delta","output_index":0,"item_id":"msg","delta":"Hi"}\n'
ENDED: Final = b'{"type":"response.completed","response":{"id":"resp_1","status":"completed"}}\n'
CHUNK: Final = b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n'
LARGE: Final = b'{"a": "' + b"x" * EVENT_MAX_BYTES + b'"}\n'
CANCEL: Final = b'{"type":"projector.cancel"}\n'
CLOCK: Final = ("--clock", "2025-12-15T12:00:00.123Z", "--stream-id", "stream_1")


class Done(NamedTuple):
    """Result of a command."""

    status: int
    out: bytes
    err: bytes


Run: TypeAlias = Callable[..., Done]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Callable[..., Done]]:
    """Runs commands in this process, which is quicker than starting one; `given` is a file as standard input."""
    with ExitStack() as opened:

        def run_one(*arguments: str, given: bytes = b"") -> Done:
            source = tmp_path / "standard-input"
            source.write_bytes(given)
            monkeypatch.setattr(sys, "stdin", opened.enter_context(source.open(encoding="utf-8")))
            try:
                status = cli.main(list(arguments))
            except SystemExit as end:
                status = int(end.code or 0)
            return Done(status, *capfdbinary.readouterr())

        yield run_one


def sse(*lines: bytes) -> bytes:
    return b"".join(b"data: " + line + b"\n" for line in lines)


def kinds(data: bytes) -> list[str]:
    return [json.loads(line)["kind"] for line in data.splitlines()]


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts the program with pipes; ends what a test leaves running."""
    programs: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        programs.append(subprocess.Popen([*START, *arguments], env=ENVIRONMENT, **{**pipes, **settings}))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
        program.wait()
        for pipe in (program.stdin, program.stdout, program.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


# project


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        pytest.param((), CREATED + HI + ENDED, id="standard-input"),
        pytest.param(("-",), CREATED + HI + ENDED, id="dash"),
        pytest.param(("-",), sse(CREATED, HI, ENDED), id="sse-is-recognised"),
        pytest.param(("--in", "ndjson"), CREATED + HI + ENDED, id="ndjson"),
        pytest.param(("--in", "sse", "--provider", "openai_responses"), sse(CREATED, HI, ENDED), id="sse"),
        pytest.param(("--dialect", "public_sse_v1"), CREATED + HI + ENDED, id="dialect"),
    ],
)
def test_project(run: Run, arguments: tuple[str, ...], given: bytes) -> None:
    done = run("project", *CLOCK, *arguments, given=given)
    assert (done.status, done.err) == (0, b"")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["kind"] for event in events] == [
        "lifecycle",
        "output_item.added",
        "message.delta",
        "output_item.done",
        "lifecycle",
        "final",
    ]
    assert {(event["stream_id"], event["server_timestamp"]) for event in events} == {
        ("stream_1", "2025-12-15T12:00:00.123Z")
    }


@pytest.mark.parametrize(
    ("provider", "given", "hint"),
    [
        pytest.param("openai_chat", CREATED + HI + ENDED, "openai_responses", id="responses"),
        pytest.param("openai_responses", CHUNK, "openai_chat", id="chat"),
        pytest.param("openai_responses", sse(CHUNK), "openai_chat", id="chat-sse"),
        *(
            pytest.param("openai_responses", path.read_bytes(), "anthropic_messages", id=path.stem)
            for path in sorted((EXAMPLES / "anthropic_messages_input").glob("messages-[ct]*.ndjson"))
        ),
        pytest.param("openai_responses", b'{"type": "other"}\n', None, id="neither"),
        pytest.param("openai_responses", b"", None, id="nothing"),
        pytest.param("openai_chat", CHUNK, None, id="its-own"),
    ],
)
def test_the_provider_of_a_stream_that_has_no_event_of_another(
    run: Run, provider: str, given: bytes, hint: str | None
) -> None:
    done = run("project", *CLOCK, "--provider", provider, given=given)
    assert done.status == 0
    assert done.err.decode().count("it looks like `--provider ") == (hint is not None)
    assert f"`--provider {hint or ''}" in done.err.decode() or hint is None
    is_neither = hint is None and provider != "openai_chat"
    assert ("expected its stream, as SSE or as a JSON event per line" in done.err.decode()) == is_neither


@pytest.mark.parametrize(
    ("options", "is_hinted"),
    [
        pytest.param([], True, id="without"),
        pytest.param(["--host-events"], False, id="with"),
    ],
)
def test_host_events_without_their_option_have_a_hint(run: Run, options: list[str], *, is_hinted: bool) -> None:
    done = run("project", *CLOCK, *options, given=CREATED + b'{"type":"projector.context","agent":"a"}\n' + ENDED)
    assert done.status == 0
    assert ("--host-events" in done.err.decode()) == is_hinted


def test_project_writes_sse(run: Run) -> None:
    done = run("project", "--out", "sse", given=CREATED + ENDED)
    messages = done.out.split(b"\n\n")
    assert messages.pop() == b""
    assert kinds(b"\n".join(message.removeprefix(b"data: ") for message in messages)) == ["lifecycle"] * 2 + ["final"]


def test_project_reads_a_file(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.ndjson"
    source.write_bytes(CREATED + HI)
    done = run("project", str(source))
    assert done.status == 0, "an error terminal is an answer"
    assert kinds(done.out)[-2:] == ["output_item.done", "error"]


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        pytest.param((), {"status": "completed", "response_text": "Hi"}, id="one-response"),
        pytest.param(("--run",), {"status": "completed", "response_text": "HiHi"}, id="D12-run"),
        pytest.param(
            ("--run", "--host-events"), {"status": "cancelled", "response_text": "HiHi"}, id="D35-host-events"
        ),
    ],
)
def test_runs_and_host_events(run: Run, arguments: tuple[str, ...], last: dict[str, str]) -> None:
    given = CREATED + HI + ENDED + CREATED.replace(b"resp_1", b"resp_2") + HI + HI + CANCEL + ENDED
    assert json.loads(run("project", *arguments, given=given).out.splitlines()[-1])["final"] == last


def test_project_streams(started: Any) -> None:
    program = started("project")
    for line, expected in ((CREATED, ["lifecycle"]), (HI, ["output_item.added", "message.delta"])):
        program.stdin.write(line)
        program.stdin.flush()
        assert kinds(b"".join(program.stdout.readline() for _ in expected)) == expected, "before the input ends"
    out, _ = program.communicate()
    assert kinds(out) == ["output_item.done", "error"]


def test_an_interrupt_cancels(started: Any) -> None:
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a CI in the background ignores it
    program = started("project")
    signal.signal(signal.SIGINT, inherited)
    program.stdin.write(CREATED + HI)
    program.stdin.flush()
    for _ in range(3):
        program.stdout.readline()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate()
    assert (program.returncode, err) == (130, b"")
    assert json.loads(out.splitlines()[-1])["final"] == {"status": "cancelled", "response_text": "Hi"}


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        pytest.param(("project",), CREATED + HI * 20_000, id="project"),
        pytest.param(("explain",), b"", id="explain"),
        pytest.param(("explain", "error"), b"", id="explain-one"),
        pytest.param(("validate", "-"), b"{}\n" * 3, id="validate"),
        pytest.param(("replay", str(EXAMPLES)), b"", id="replay"),
        pytest.param(("--help",), b"", id="help"),
        pytest.param(("project", "--help"), b"", id="help-of-a-command"),
        pytest.param(("--version",), b"", id="version"),
        pytest.param(("redact", "--provider", "openai_responses"), CREATED + HI * 20_000, id="redact"),
        pytest.param(("explain", "--redaction", "-"), b"password: hunter2\n", id="explain-redaction"),
        pytest.param(("config", "print"), b"", id="config"),
        pytest.param(("init",), b"", id="init"),
        pytest.param(("init", "azure", "-"), b"", id="init-case"),
        pytest.param(("completion", "bash"), b"", id="completion"),
    ],
)
def test_a_reader_that_leaves_early_is_no_failure(arguments: tuple[str, ...], given: bytes) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*START, *arguments]
    with os.fdopen(writer, "wb") as out:
        done = subprocess.run(
            command, input=given, stdout=out, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=240, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_leaves_in_a_long_stream(started: Any) -> None:
    program = started("project")
    program.stdin.write(CREATED)
    program.stdin.flush()
    assert kinds(program.stdout.readline()) == ["lifecycle"]
    program.stdout.close()
    with suppress(BrokenPipeError):
        program.stdin.write(HI * 20_000)
    with suppress(BrokenPipeError):
        program.stdin.close()
    assert program.stderr.read() == b""
    assert program.wait() == 0


# validate


def written(tmp_path: Path, *lines: bytes) -> str:
    target = tmp_path / "out.ndjson"
    target.write_bytes(b"".join(lines))
    return str(target)


def test_validate_obeyed(run: Run, tmp_path: Path) -> None:
    output = run("project", given=CREATED + HI + ENDED).out
    as_sse = b": heartbeat\n\n" + b"".join(b"data: " + line + b"\n\n" for line in output.splitlines())
    for lines in (output, as_sse, output.replace(b"\n", b"\r\n"), BOM + output, BOM + as_sse.partition(b"\n\n")[2]):
        done = run("validate", "--dialect", "public_sse_v1", written(tmp_path, lines))
        assert done == Done(0, b"", b"")


def test_validate_names_file_and_line(run: Run, tmp_path: Path) -> None:
    lines = run("project", given=CREATED + HI + ENDED).out.splitlines(keepends=True)
    name = written(tmp_path, lines[0], b"\n", *lines[2:5], b"{broken\n")
    good = tmp_path / "good.ndjson"
    good.write_bytes(b"".join(lines))
    done = run("validate", str(good), name)
    assert done.status == 1
    places = [line.split(" ")[0] for line in done.out.decode().splitlines()]
    assert f"{name}:3:" in places, "the item was never announced"
    assert f"{name}:6:" in places, "no JSON, and no terminal"
    assert all(place.startswith(name) for place in places)
    assert b" event 3 " in done.out


CHECKED = [name for name, dialect in DIALECTS.items() if dialect.checker is not None]


def test_validate_has_rules_of_our_contract_and_of_openwop(run: Run) -> None:
    assert CHECKED == ["public_sse_v1", "openwop"]
    stream = resource("examples_ndjson") / "ag_ui" / "chat-unicode.ndjson"
    done = run("validate", "--dialect", "ag_ui", str(stream))
    assert (done.status, done.out) == (2, b"")
    assert done.err.decode() == (
        "projector: `ag_ui` has no rules of ours, see `Check a stream` in docs/dialects.md for those of its protocol; "
        "expected `public_sse_v1` or `openwop`\n"
    )


@pytest.mark.parametrize("dialect", CHECKED)
def test_validate_every_dialect(run: Run, tmp_path: Path, dialect: str) -> None:
    for form in ("ndjson", "sse"):
        output = run("project", "--dialect", dialect, "--out", form, given=CREATED + HI + ENDED).out
        assert run("validate", "--dialect", dialect, written(tmp_path, output)) == Done(0, b"", b"")
    cut = b"\n".join(output.rstrip().split(b"\n\n")[:-2])
    done = run("validate", "--dialect", dialect, written(tmp_path, cut))
    assert done.status == 1
    assert str(tmp_path).encode() in done.out
    done = run("validate", "--dialect", dialect, "-", given=b'{"type": "odd", "hunter2": "hunter2", "kind": "x"}\n')
    assert done.status == 1
    assert b"-:1: " in done.out


@pytest.mark.parametrize(("dialect", "other"), [("public_sse_v1", "openwop"), ("openwop", "public_sse_v1")])
def test_validate_names_the_dialect_of_a_stream(run: Run, dialect: str, other: str) -> None:
    stream = resource("examples_ndjson") / other / "chat-unicode.ndjson"
    done = run("validate", "--dialect", dialect, str(stream))
    assert done.status == 1
    assert done.err.decode() == f"projector: {stream}: it looks like `--dialect {other}`\n"


def test_validate_names_the_provider_of_a_stream(run: Run) -> None:
    done = run("validate", "-", given=CREATED + HI)
    assert done.status == 1
    assert "it looks like a stream of a provider: `projector project --provider openai_responses`" in done.err.decode()


def test_validate_knows_an_error_response(run: Run) -> None:
    done = run(
        "validate", "-", given=b'{"type":"about:blank","title":"Bad Gateway","status":502,"code":"upstream_reset"}'
    )
    assert done.status == 1
    assert done.err == b"projector: -: it looks like an error response of the server, which is no stream\n"


@pytest.mark.parametrize("given", [b"Dear diary\n", b'{"a": 1}\n', b"[]\n", LARGE])
def test_validate_takes_nothing_else_for_a_stream_of_a_provider(run: Run, given: bytes) -> None:
    assert run("validate", "-", given=given).err == b""


def test_validate_standard_input(run: Run) -> None:
    done = run("validate", "-", given=b'{"kind": "odd", "secret": "hunter2"}\n')
    assert done.status == 1
    assert done.out.startswith(b"-:1: kind (spec): ")
    assert b"hunter2" not in done.out


# replay


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "cases" / "openai_responses" / "mine.ndjson"
    source.parent.mkdir(parents=True)
    source.write_bytes(CREATED + HI + ENDED)
    return tmp_path / "cases"


def test_replay_a_folder_of_ones_own(run: Run, folder: Path) -> None:
    done = run("replay", str(folder))
    assert (done.status, b"mine.ndjson: golden is missing" in done.out) == (1, True)
    assert f"To write golden files: projector replay {folder} --update\n".encode() in done.out
    written_now = [f"{dialect}/mine.ndjson: new" for dialect in DIALECTS]
    done = run("replay", str(folder), "--update")
    assert done.out.decode().splitlines() == [*written_now, "1 case written in 8 dialects, 8 files changed"]
    assert (done.status, run("replay", str(folder)).status) == (0, 0)
    golden = folder / "public_sse_v1" / "mine.ndjson"
    golden.write_bytes(golden.read_bytes().replace(b'"Hi"', b'"Ho"', 1))
    done = run("replay", str(folder))
    assert done.status == 1
    shown = done.out.decode().splitlines()
    assert shown[0] == "public_sse_v1/mine.ndjson: differs"
    assert [line[0] for line in shown if '"message.delta"' in line] == ["-", "+"]
    assert shown[-1] == f"1 case replayed in {len(DIALECTS)} dialects, 1 differ"
    assert run("replay", str(folder), "--update").out.startswith(b"public_sse_v1/mine.ndjson: changed\n1 case")


def test_replay_the_cases_of_a_name(run: Run, folder: Path) -> None:
    """What others changed is not accepted with it."""
    source = folder / "openai_responses" / "mine.ndjson"
    source.with_name("yours[1].ndjson").write_bytes(source.read_bytes())
    (folder / "cases.toml").write_text('[defaults]\ndialects = ["ai_sdk"]\n')
    one = b"1 case written in 1 dialect, 1 file changed\n"
    assert run("replay", str(folder), "--update", "--name", "mi*") == Done(0, b"ai_sdk/mine.ndjson: new\n" + one, b"")
    assert run("replay", str(folder), "--name", "mine") == Done(0, b"1 case replayed in 1 dialect, 0 differ\n", b"")
    assert run("replay", str(folder), "--name", "yours[1]").out.startswith(b"ai_sdk/yours[1].ndjson: golden is missing")
    source.unlink()
    gone = b"ai_sdk/mine.ndjson: removed\n0 cases written in 0 dialects, 1 file changed\n"
    assert b"input is missing" not in run("replay", str(folder), "--name", "y*").out
    assert run("replay", str(folder), "--update", "--name", "mine") == Done(0, gone, b"")
    message = f"projector: --name: no case in `{folder}` has the name `mine`\n"
    assert run("replay", str(folder), "--update", "--name", "mine") == Done(2, b"", message.encode())


def test_a_difference_that_the_output_cannot_encode(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "public_sse_v1").mkdir()
    (folder / "public_sse_v1" / "mine.ndjson").write_text("Gr\u00fc\u00dfe\n", encoding="utf-8")
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="ascii"))
    assert cli.main(["replay", str(folder)]) == 1
    assert b"-Gr\\xfc\\xdfe\n" in output.getvalue()


def test_an_output_that_has_its_own_handler_of_errors_keeps_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="utf-8", errors="surrogateescape"))
    other = folder.rename(folder.with_name("\udcff"))
    assert cli.main(["replay", str(other)]) == 1
    assert b"\xff' --update\n" in output.getvalue(), "the command has the name of the folder"


def test_an_output_that_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    closed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert cli.main(["init"]) == 2
    assert capsys.readouterr().err == "projector: I/O operation on closed file.\n"


def test_a_printed_configuration_is_utf_8(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As TOML always is: an escape such as `\\xfc` is no TOML."""
    file = tmp_path / "projector.toml"
    file.write_text(
        '[agents.default]\nmodel = "gr\u00fcn"\nupstream = "u"\n[upstreams.u]\nbase_url = "http://localhost/v1"\n',
        encoding="utf-8",
    )
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="ascii"))
    assert cli.main(["config", "print", str(file)]) == 0
    assert tomllib.loads(output.getvalue().decode())["agents"]["default"]["model"] == "gr\u00fcn"


def test_what_an_update_wrote_before_an_error_is_listed(run: Run, folder: Path) -> None:
    (folder / "cases.toml").write_text('[defaults]\ndialects = ["ai_sdk"]\n')
    (folder / "public_sse_v1_input").mkdir()
    (folder / "public_sse_v1_input" / "invalid.ndjson").write_text("{}\n")
    done = run("replay", str(folder), "--update")
    assert (done.status, done.out) == (2, b"ai_sdk/mine.ndjson: new\n")


def test_a_goldens_update_leaves_what_did_not_change(run: Run, folder: Path) -> None:
    run("replay", str(folder), "--update")
    golden = folder / "public_sse_v1" / "mine.ndjson"
    os.utime(golden, (1, 1))
    assert b"8 dialects, 0 files changed" in run("replay", str(folder), "--update").out
    assert golden.stat().st_mtime == 1


def test_replay_a_folder_in_a_file(run: Run, folder: Path, tmp_path: Path) -> None:
    """The input of this one has public events, as that of a stream whose provider was not recorded."""
    given = run("project", *CLOCK, given=CREATED + HI + ENDED).out
    kept = tmp_path / "stream_1.zip"
    kept.write_bytes(pack("stream_1", Recording("public_sse_v1", given, 0, 0), ["public_sse_v1", "ai_sdk"]))
    assert run("replay", str(kept)) == Done(0, b"1 case replayed in 2 dialects, 0 differ\n", b"")
    assert b"unpack the file first" in run("replay", str(kept), "--update").err
    unpack(kept, folder)
    source = folder / "public_sse_v1_input" / "stream_1.ndjson"
    assert source.read_bytes() == given == (folder / "public_sse_v1" / "stream_1.ndjson").read_bytes()
    source.write_bytes(given[:-20])
    assert b"stream_1.ndjson:6: expected valid events of `public_sse_v1`" in run("replay", str(folder)).err
    outer = shutil.make_archive(str(tmp_path / "outer"), "zip", folder.parent, folder.name)
    assert f"expected inputs at `{outer}/<provider>/".encode() in run("replay", outer).err
    kept.write_bytes(kept.read_bytes()[:-40])
    done = run("replay", str(kept))
    assert (b"expected a folder of cases, or a ZIP file" in done.err, done.status) == (True, 2)


def test_replay_without_a_folder_takes_the_examples(run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder.rename(folder.with_name(EXAMPLES_FOLDER)).parent)
    assert run("replay", "--update").status == 0
    assert run("replay").status == 0


def test_dropped_input_is_listed_and_fails_on_request(run: Run, folder: Path) -> None:
    odd = b'{"type":"response.odd"}\n'
    (folder / "openai_responses" / "mine.ndjson").write_bytes(CREATED + odd + HI + ENDED)
    assert run("replay", str(folder), "--update").status == 0
    done = run("replay", str(folder))
    assert (done.status, b"openai_responses/mine.ndjson: dropped: response.odd (1)\n" in done.out) == (0, True)
    assert run("replay", str(folder), "--fail-on-dropped").status == 1
    (folder / "cases.toml").write_text('[defaults]\ndropped = ["response.odd"]\n')
    assert run("replay", str(folder), "--fail-on-dropped").status == 0
    done = run("project", given=CREATED + odd + HI + ENDED)
    assert (done.status, b"dropped: response.odd (1)" in done.err) == (0, True)
    assert run("project", "--fail-on-dropped", given=CREATED + odd + HI + ENDED).status == 1


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param(b"data: " + CREATED, "(no JSON)", id="an-event-stream"),
        pytest.param(b"{\n" + CREATED, "(no JSON)", id="an-object-over-lines"),
        pytest.param(b"[" + CREATED.rstrip() + b"]\n", "(no object)", id="an-array"),
    ],
)
def test_an_input_that_is_no_line_of_json_is_dropped(run: Run, folder: Path, given: bytes, name: str) -> None:
    (folder / "openai_responses" / "mine.ndjson").write_bytes(given + HI + ENDED)
    assert f"mine.ndjson: dropped: {name} (1)\n".encode() in run("replay", str(folder), "--update").out
    assert run("replay", str(folder), "--fail-on-dropped").status == 1
    done = run("project", "--in", "ndjson", "--fail-on-dropped", given=given + HI + ENDED)
    assert (done.status, f"dropped: {name} (1)\n".encode() in done.err) == (1, True)
    assert run("explain", name).status == 0


CONFIGURED: Final = """
[upstreams.default]
api_key = "${SOME_KEY}"

[agents.support]
upstream = "default"
model = "m"
policy.text.email = "mask"

[agents.sales]
upstream = "default"
model = "m"
"""


def test_replay_with_a_policy_of_a_configuration(
    run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    """A case with a policy of its own keeps it."""
    monkeypatch.setenv("SOME_KEY", "a-key-of-some-length")
    mail = HI.replace(b'"Hi"', b'"ann@mail.example "')
    assert mail != HI
    for name in ("mine", "own"):
        (folder / "openai_responses" / f"{name}.ndjson").write_bytes(CREATED + mail + ENDED)
    (folder / "cases.toml").write_text('[defaults]\ndialects = ["public_sse_v1"]\n[cases.own]\npolicy = "default"\n')
    (config := tmp_path / "projector.toml").write_text(CONFIGURED)
    options = ("--config", str(config), "--policy", "agents.support")
    hint = f"To write golden files: projector replay {folder} {' '.join(options)} --update\n"
    assert hint in run("replay", str(folder), *options).out.decode()
    assert run("replay", str(folder), "--update").status == 0
    done = run("replay", str(folder), *options)
    assert (done.status, b"mine.ndjson: differs" in done.out, b"own.ndjson: differs" in done.out) == (1, True, False)
    assert b"<redacted:email>" in done.out
    assert run("replay", str(folder), *options, "--update").status == 0
    assert run("replay", str(folder), *options).status == 0
    assert run("replay", str(folder), "--config", str(config)).status == 2


def test_the_file_of_dropped_input_is_the_input(run: Run, tmp_path: Path) -> None:
    """The folder of the provider's name has the goldens of its dialect."""
    source = tmp_path / "anthropic_messages_input" / "mine.ndjson"
    source.parent.mkdir()
    source.write_bytes(b'{"type":"message_start","message":{"id":"msg_1","role":"assistant"}}\n{"type":"odd"}\n')
    assert run("replay", str(tmp_path), "--update").status == 0
    assert b"anthropic_messages_input/mine.ndjson: dropped: event.odd (1)" in run("replay", str(tmp_path)).out


def test_a_folder_chooses_its_dialects(run: Run, folder: Path) -> None:
    assert run("replay", str(folder), "--update").status == 0
    (folder / "cases.toml").write_text('[defaults]\ndialects = ["public_sse_v1"]\n')
    done = run("replay", str(folder))
    assert (done.status, done.out.count(b"dialect is not chosen")) == (1, len(DIALECTS) - 1)
    shown = run("replay", str(folder), "--update").out.decode().splitlines()
    assert shown[-2:] == ["openwop/mine.ndjson: removed", "1 case written in 1 dialect, 7 files changed"]
    assert [path.name for path in folder.glob("*/mine.ndjson") if path.parent.name in DIALECTS] == ["mine.ndjson"]


# explain


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("response.output_text.delta", "response.output_text.delta: message.delta\n"),
        ("keepalive", f"keepalive: dropped\n  {DROPPED['keepalive']}\n"),
        ("(repeated chunk)", "(repeated chunk): dropped\n  the chunk with the finish reason was sent twice\n"),
        ("shell_call", "shell_call (item): output_item.added and output_item.done only\n"),
        (
            "upstream_reset",
            "upstream_reset: The connection to the provider broke. See `Errors` in docs/operations.md.\n",
        ),
    ],
)
def test_explain(run: Run, name: str, expected: str) -> None:
    done = run("explain", name)
    assert (done.status, done.err) == (0, b"")
    assert expected in done.out.decode()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("response.output_text.detla", "; the nearest known name is `response.output_text.delta`."),
        ("shell_cal", "; the nearest known name is `shell_call`."),
        ("rule", "; the nearest known name is `rules`."),
        ("nosuch", ". Unknown events are"),
    ],
)
def test_explain_an_unknown_name(run: Run, name: str, hint: str) -> None:
    done = run("explain", name)
    assert (done.status, done.out) == (1, b"")
    assert done.err.startswith(f"projector: unknown name `{name}`{hint}".encode())


def test_explain_a_file(run: Run, tmp_path: Path) -> None:
    done = run("explain", name := written(tmp_path, CREATED))
    assert (done.status, done.out) == (2, b"")
    assert done.err.decode() == (
        f"projector: {name}: expected a name, not a file: `projector project` lists what is dropped of a stream, "
        "`--redaction FILE` what is withheld\n"
    )


def test_explain_everything(run: Run) -> None:
    assert b"\nresponse.completed: lifecycle, final\n" in run("explain").out


# mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("projekt",), "invalid choice: 'projekt'"),
        (("project", "--provider", "nobody"), "argument --provider: invalid choice: 'nobody'"),
        (("project", "--dialect", "none"), "argument --dialect: invalid choice: 'none'"),
        (("project", "--in", "xml"), "argument --input-format/--in: invalid choice: 'xml'"),
        (("project", "--clock", "noon"), "--clock: expected an ISO 8601 time, such as 2025-12-15T12:00:00.000Z"),
        (("project", "no/such/file"), "projector: no/such/file: not found"),
        (("project", "."), "projector: .: is a directory"),
        (("validate",), "the following arguments are required: FILE"),
        (("validate", "no/such/file"), "projector: no/such/file: not found"),
        (("replay", "no/such/folder"), "no/such/folder: not found; expected a folder of cases"),
        (("demo", "--port", "x"), "argument --port: invalid int value: 'x'"),
    ],
)
def test_mistakes_of_the_caller(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert (done.status, done.out) == (2, b"")
    assert message in done.err.decode()


@pytest.mark.parametrize("arguments", [("project",), ("validate", "-"), ("redact",), ("explain", "--redaction", "-")])
def test_standard_input_that_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main([*arguments]) == 2
    assert capsys.readouterr().err == "projector: standard input is closed; expected a file, or input from a pipe\n"


def test_the_server_needs_its_packages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "projector.server.process", None)
    done = run("demo")
    assert done.status == 2
    assert b'install `public-stream-projector[server]`; in a clone: `pip install ".[server]"`' in done.err


def test_an_unknown_option_shows_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", "rules", "--text", "email"])
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: projector explain ")
    assert "unrecognized arguments: --text email" in printed
