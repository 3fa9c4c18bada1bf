"""Golden replay: recorded inputs are projected to each dialect, and compared with golden files byte for byte.

    DIR/cases.toml                    settings of the cases (optional)
    DIR/<provider>/<case>.ndjson      input: one provider event per line; `projector.*` lines are host events; the
                                      folder is `<provider>_input` if a dialect has the provider's name
    DIR/public_sse_v1_input/...       input: the public events of a stream without a recording of its provider
    DIR/<dialect>/<case>.ndjson       golden: written by `projector replay --update`, never by hand

Clock and IDs are injected, so goldens need no scrubbing.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from projector._errors import UsageError, known_name
from projector._file_problems import file_problem, parse_toml
from projector._validation import describe
from projector.contracts import codec
from projector.core.context import StreamContext, parse_time
from projector.core.faults import FAULTS
from projector.core.handlers import listed, unexpected_drops
from projector.core.pipeline import PUBLIC, OnOutput, build_pipeline
from projector.core.replay import StreamReplay
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS, profile_of
from projector.redaction.policy import Policy, PolicyError, with_rules_in
from projector.redaction.redactor import Redactor

CASES_FILE: Final = "cases.toml"
CLOCK: Final = "2025-12-15T12:00:00.000Z"
STREAM_ID: Final = "stream_" + "0" * 32
FILES: Final = "[!.]*.ndjson"
"""Inputs and goldens; a name with a point in front is that of a copy of an editor or of macOS."""
LINE_SHOWN_CHARS: Final = 500
ROWS_SHOWN: Final = 200
"""Rows of a diff; a golden of 40,000 lines of which each differs has a diff of 26 MB."""
_RUN_ROWS: Final = 20
"""Rows that are shown of those that are removed, or added, in one place."""
_HEAD_CHARS: Final = 160
"""What is shown of a line before the place of a difference that is far from its beginning, and right before it."""


def _time(text: str) -> str:
    parse_time(text)
    return text


Clock: TypeAlias = Annotated[str, AfterValidator(_time)]
FaultCode: TypeAlias = Annotated[str, AfterValidator(lambda code: known_name("fault", code, FAULTS))]
DialectName: TypeAlias = Annotated[str, AfterValidator(lambda name: known_name("dialect", name, DIALECTS))]


class CaseContext(BaseModel):
    """The host's context of the stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conversation_id: str | None = None
    agent: str | None = None
    workflow: Mapping[str, object] = {}


class CaseSettings(BaseModel):
    """Settings of one case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = ""
    clock: Clock = CLOCK
    stream_id: str = STREAM_ID
    run: bool = False
    host_events: bool = False
    close: FaultCode | None = None
    context: CaseContext = CaseContext()
    policy: str | Mapping[str, object] = {}
    """A table, or the name of a ready policy; empty: the default policy, or that of `Case.redactor`."""
    profile: Mapping[str, object] = {}
    dialects: tuple[DialectName, ...] = ()
    """Dialects with a golden file; empty: all."""
    dropped: tuple[str, ...] = ()
    """Names of input that is dropped as expected; see `projector.core.handlers.unexpected_drops`."""


class Case(NamedTuple):
    """One input and its settings."""

    name: str
    provider: str
    source: Path
    settings: CaseSettings
    redactor: Redactor | None = None
    """Policy and secrets of a configuration, for a case without a policy."""

    @property
    def dialects(self) -> tuple[str, ...]:
        """Return the dialects that have a golden file."""
        return self.settings.dialects or tuple(DIALECTS)


What: TypeAlias = Literal["differs", "golden is missing", "input is missing", "dialect is not chosen"]


class Difference(NamedTuple):
    """A case that differs from its golden."""

    case: str
    dialect: str
    what: What
    diff: str = ""


def inputs_of(provider: str) -> str:
    """Return the name of the folder that has the inputs of a provider. The folder of a dialect has its goldens."""
    return f"{provider}_input" if provider in DIALECTS else provider


def sources() -> tuple[str, ...]:
    """Return what an input may be of: a provider, or the public contract."""
    return (*PROVIDERS, PUBLIC)


def load_cases(folder: Path) -> list[Case]:
    """Load the cases of a folder, sorted by provider and name.

    Raises:
        UsageError: the folder or its inputs are missing, two cases have one name, a file is in an unknown folder or no
            regular file, or the settings are invalid.
    """
    if not folder.is_dir():
        what = "" if folder.exists() else "not found; "
        raise UsageError(f"{folder}: {what}expected a folder of cases: `projector replay FOLDER`")
    if folder.absolute().name in map(inputs_of, sources()):
        raise UsageError(f"{folder}: expected the folder above: `{folder.absolute().parent}`")
    _check_paths(folder)
    settings = load_settings(folder / CASES_FILE)
    cases: dict[str, Case] = {}
    names: set[str] = set()
    for provider in sources():
        for source in sorted((folder / inputs_of(provider)).glob(FILES)):
            name = source.stem
            if name.casefold() in names:
                raise UsageError(f"`{name}`: another case has this name, apart from capitals; expected unique names")
            names.add(name.casefold())
            cases[name] = Case(name, provider, source, settings.pop(name, settings[""]))
            if provider in PROVIDERS:
                with _placed(f"{CASES_FILE}: `{name}`"):
                    profile_of(provider, cases[name].settings.profile)
    unused = [name for name in settings if name]
    if unused:
        raise UsageError(
            f"{CASES_FILE}: no input for {', '.join(f'`{name}`' for name in unused)}: restore it, or remove its table"
        )
    if not cases:
        folders = ", ".join(map(inputs_of, PROVIDERS))
        raise UsageError(f"expected inputs at `{folder}/<provider>/<case>.ndjson`; folders: {folders}")
    return list(cases.values())


def play(case: Case, dialect: str, on_output: OnOutput | None = None, *, dropped: Counter[str] | None = None) -> bytes:
    """Return the output of a case in a dialect, as NDJSON.

    Args:
        case: the case.
        dialect: a name of `DIALECTS`.
        on_output: that of `build_pipeline`.
        dropped: gets the counts of input that was not emitted.

    Raises:
        UsageError: the input has public events, and they are not valid.
    """
    data = case.source.read_bytes()
    if case.provider == PUBLIC:
        _check_events(case.source, data)
    return project(case.provider, data, case.settings, dialect, on_output, dropped=dropped, redactor=case.redactor)


def project(
    provider: str,
    data: bytes,
    settings: CaseSettings,
    dialect: str,
    on_output: OnOutput | None = None,
    *,
    dropped: Counter[str] | None = None,
    redactor: Redactor | None = None,
) -> bytes:
    """Return the output of an input in a dialect, as NDJSON; the provider is one of `sources`, see `play`."""
    lines, close = data.splitlines(keepends=True), settings.close
    policy = Policy.load(settings.policy) if redactor is None else redactor.policy
    if provider == PUBLIC:
        writer = StreamReplay(dialect=dialect, policy=policy, is_run=settings.run, output_format="ndjson")
        return writer.feed(map(codec.loads, lines))
    now = parse_time(settings.clock)
    pipeline = build_pipeline(
        provider=provider,
        dialect=dialect,
        policy=policy if redactor is None else None,
        redactor=redactor,
        context=StreamContext(stream_id=settings.stream_id, **dict(settings.context)),
        run=settings.run,
        profile=settings.profile,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=settings.host_events,
        clock=lambda: now,
        on_output=on_output,
    )
    output = b"".join([*map(pipeline.feed, lines), pipeline.close(FAULTS[close] if close else None)])
    if dropped is not None:
        dropped.update(pipeline.dropped)
    return output


def _check_events(source: Path, data: bytes) -> None:
    rules = DIALECTS[PUBLIC].checker
    checker = rules() if rules is not None else None
    if checker is not None:
        found = [one for number, line in enumerate(data.splitlines(), 1) for one in checker.feed(number, line)]
        for one in [*found, *checker.close()]:
            raise UsageError(f"{source}:{one.line}: expected valid events of `{PUBLIC}`: {one.message}")


def compare(
    folder: Path, case: Case, dialect: str, *, update: bool, dropped: Counter[str] | None = None
) -> Difference | None:
    """Compare a case with its golden, and return how it differs; with `update`, write the golden then.

    `dropped` is that of `play`.
    """
    golden = folder / dialect / f"{case.name}.ndjson"
    now = play(case, dialect, dropped=dropped)
    before = golden.read_bytes() if golden.is_file() else None
    if before == now:
        return None
    if update:
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(now)
    if before is None:
        return Difference(case.name, dialect, "golden is missing")
    return Difference(case.name, dialect, "differs", "" if update else _diff(before, now))


def drops_of(case: Case, dropped: Counter[str] | None = None) -> str:
    """Return a line about the input of a case that was dropped unexpectedly; empty if there is none.

    `dropped` is what `play` counted, which is the same in each dialect; without it the case is played.
    """
    if dropped is None:
        play(case, case.dialects[0], dropped=(dropped := Counter()))
    names = listed(unexpected_drops(dropped, case.settings.dropped))
    return f"{inputs_of(case.provider)}/{case.name}.ndjson: dropped: {names}" if names else ""


def orphans(folder: Path, cases: list[Case], *, update: bool, name: str | None = None) -> list[Difference]:
    """Return the goldens without an input, or in a dialect that is not chosen; with `update`, delete them.

    Args:
        folder: the folder of cases.
        cases: all its cases.
        update: whether to delete.
        name: only goldens whose name is this one, see `is_named`; None: all.

    Raises:
        UsageError: one would be deleted that may be an input, because a provider has the name of its dialect.
    """
    chosen = {case.name: case.dialects for case in cases}
    found: dict[Path, Difference] = {}
    for dialect in DIALECTS:
        for golden in sorted((folder / dialect).glob(FILES)):
            orphan = orphan_of(golden.stem, dialect, chosen.get(golden.stem))
            if orphan is None or not is_named(golden.stem, name):
                continue
            if update and golden.stem not in chosen and dialect in PROVIDERS:
                raise UsageError(
                    f"`{golden}`: expected an input in `{inputs_of(dialect)}`: move it there, or delete it"
                )
            found[golden] = orphan
    for golden in found if update else ():  # none if one of them may not be deleted
        golden.unlink()
    return [*found.values()]


def is_named(case: str, name: str | None) -> bool:
    """Return whether a case has a name, which may be a pattern such as `weather-*`; None: every case has it."""
    return name is None or case == name or fnmatchcase(case, name)


def orphan_of(name: str, dialect: str, chosen: Collection[str] | None) -> Difference | None:
    """Return what is wrong with having a golden, by the dialects that its case chooses; None without a case."""
    if chosen is None:
        return Difference(name, dialect, "input is missing")
    return None if dialect in chosen else Difference(name, dialect, "dialect is not chosen")


def _check_paths(folder: Path) -> None:
    """Reject what no case would use, files elsewhere than in a folder with a known name, and what is no file."""
    for path in sorted(folder.glob(FILES)):
        folders = ", ".join(map(inputs_of, sources()))
        raise UsageError(f"`{path}`: expected inputs in the folder of a provider: {folders}")
    known = (*map(inputs_of, sources()), *DIALECTS)
    for path in sorted(folder.glob(f"[!.]*/{FILES}")):
        known_name(f"folder in `{folder}`:", path.parent.name, known)
        if not path.is_file():
            raise UsageError(f"`{path}`: expected a file")
    for path in sorted(path for name in known for path in (folder / name).glob(f"[!.]*/**/{FILES}")):
        expected = folder / path.relative_to(folder).parts[0]
        raise UsageError(f"`{path}`: expected it directly in `{expected}`: a folder of cases has no further levels")


@contextlib.contextmanager
def _placed(where: str) -> Iterator[None]:
    """Begin the message of a `UsageError` with its place."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def load_settings(path: Path) -> dict[str, CaseSettings]:
    """Load the settings by case name, the defaults under the empty name; raise `UsageError` if one is invalid."""
    if not os.path.lexists(path):
        return {"": CaseSettings()}
    if not path.is_file():
        raise UsageError(f"{path.name}: expected a file")
    text = ""
    try:
        text = path.read_text("utf-8")
        table = parse_toml(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path.name}: {file_problem(error, text)}") from None
    for name in table:
        with _placed(path.name):
            known_name("table", name, ("cases", "defaults"))
    defaults, cases = table.get("defaults", {}), table.get("cases", {})
    if not isinstance(defaults, dict) or not isinstance(cases, dict):
        raise UsageError(f"{path.name}: expected tables `[defaults]` and `[cases.NAME]`")
    settings = {}
    for name, own in {"": {}, **cases}.items():
        where = f"{path.name}: `{name or 'defaults'}`"
        values = {**defaults, **own} if isinstance(own, dict) else own
        try:
            case = CaseSettings.model_validate(values)
            settings[name] = case.model_copy(update={"policy": with_rules_in(path.parent, case.policy)})
            Policy.load(settings[name].policy)
        except ValidationError as error:
            unknown = isinstance(values, dict) and values.keys() - CaseSettings.model_fields
            known = f"; known: {', '.join(f'`{one}`' for one in CaseSettings.model_fields)}" if unknown else ""
            raise UsageError(f"{where}: {describe(error, values, CaseSettings)}{known}") from None
        except PolicyError as error:
            raise UsageError(f"{where}: {error}") from None
    return settings


_CONSTANTS: Final = re.compile(r'"(?:schema|stream_id|server_timestamp)":"[^"\n]*",')
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
"""Characters that a terminal does not show, or acts on."""


def _diff(before: bytes, now: bytes) -> str:
    """Return a diff, without the members that all lines repeat unless only they differ."""
    texts = [[line.decode("utf-8", "replace") for line in data.splitlines()] for data in (before, now)]
    for golden, played in ([[_CONSTANTS.sub("", line) for line in text] for text in texts], texts):
        if rows := [*difflib.unified_diff(golden, played, "golden", "now", n=1, lineterm="")]:
            shown = [*islice(_shortened(rows), ROWS_SHOWN + 1)]
            end = ["... more lines differ"] if len(shown) > ROWS_SHOWN else []
            return "\n".join(
                _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", row) for row in [*shown[:ROWS_SHOWN], *end]
            )
    return "only line ends differ; in git, the line `*.ndjson -text` in `.gitattributes` keeps them"


def _shortened(rows: list[str]) -> Iterator[str]:
    """Yield the rows of a diff: of a long one its beginning, and where it differs from the row in its place."""
    groups = [[*group] for _, group in groupby(rows, lambda row: row[:1])]
    for before, group, after in zip([[], *groups], groups, [*groups[1:], []], strict=False):
        others = (after if group[0][0] == "-" else before)[: len(group)]
        for row, other in islice(zip_longest(group, others, fillvalue=""), _RUN_ROWS):
            end = min(len(row), len(other)) if len(row) != len(other) else 0
            at = next((at for at, (one, two) in enumerate(zip(row, other, strict=False)) if at and one != two), end)
            if at <= 2 * _HEAD_CHARS:
                yield row[:LINE_SHOWN_CHARS]
            else:
                yield f"{row[:_HEAD_CHARS]} ... {row[at - _HEAD_CHARS :][: LINE_SHOWN_CHARS // 2]}"
        if len(group) > _RUN_ROWS:
            yield f"... {len(group) - _RUN_ROWS} more lines"
