"""Commands on a folder of cases: record a new one, record stored ones again, replay all of them."""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from projector._errors import UsageError
from projector.cli.mapping import policy_of
from projector.cli.servers import load_settings, server_module
from projector.cli.terminal import opened, paint_diff, print_error
from projector.contracts import codec
from projector.core.faults import Fault
from projector.core.sse import BOM
from projector.providers import DEFAULT_PROVIDER, PROVIDERS
from projector.recording import Recording, cases, replay
from projector.recording.drift import drift
from projector.redaction.redactor import Redactor

_WRITTEN: Final[Mapping[replay.What, str]] = {
    "differs": "changed",
    "golden is missing": "new",
    "input is missing": "removed",
    "dialect is not chosen": "removed",
}
"""What `replay --update` did with a golden file that differed."""


def record_case(arguments: argparse.Namespace) -> int:
    """Send one request to an upstream and save its stream as a case; with `--again`, compare stored cases."""
    settings = load_settings(arguments.config)
    if arguments.upstream is None and server_module("config.preflight").lacks_key(settings):
        raise UsageError("no upstream: set OPENAI_API_KEY (and OPENAI_BASE_URL), or name a configuration with --config")
    if arguments.again != (arguments.request is None):
        raise UsageError("expected a request, or `--again`, which sends those in the folder of cases")
    if arguments.again:
        return _record_again(arguments, settings)
    upstream, folder = arguments.upstream or _only_upstream(settings), Path(arguments.dir)
    name = arguments.name or f"{upstream}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    cases.check_name(folder, name, is_replacing=arguments.force)
    request = _request(arguments.request)
    answer = _sent(settings, upstream, request, folder, is_raw=arguments.raw)
    if isinstance(answer, Fault):
        print_error(f"{answer.code}: {answer.message}")
        return 1
    old = cases.stored_input(folder, name)
    before = None if old is None else old.read_bytes()
    source = cases.write(folder, name, answer, is_replacing=arguments.force)
    print(f"{source}: {answer.events} events, {answer.withheld} values redacted")
    if before is not None:
        print("\n".join(drift(before, answer.data)) or "Kinds, members and order are those of the case before.")
    for line in _remarks(folder, name, answer, source):
        print(line)
    if arguments.keep_request:
        kept = cases.write_request(folder, upstream, name, request)
        print(f"{kept}: the request, as it was sent; `projector record --again` sends it")
    if not arguments.raw:
        print("Next: review the case, write its golden files, and commit both:")
        print(f"  {update_command(str(folder))}")
    return 0


def _remarks(folder: Path, name: str, answer: Recording, source: Path) -> Iterator[str]:
    """Yield what was dropped of a new case, and how it ends if it did not complete."""
    stored = replay.load_settings(folder / replay.CASES_FILE)
    if dropped := replay.drops_of(replay.Case(name, answer.provider, source, stored.get(name, stored[""]))):
        yield dropped
    if close := answer.settings.get("close"):
        yield f"The stream was cut off, and the case ends the same way: {close}"
    elif answer.end not in {"", "completed"}:
        yield f"The stream did not complete, and the case ends the same way: {answer.end}"


def _record_again(arguments: argparse.Namespace, settings: Any) -> int:
    """Send the stored requests, and print how each stream differs from its case; with `--force`, replace the cases."""
    folder = Path(arguments.dir)
    requests = cases.stored_requests(folder, arguments.name)
    changed = 0
    for case, upstream, path in requests:
        stored = cases.stored_input(folder, case)
        answer = _sent(settings, arguments.upstream or upstream, _request(str(path)), folder, is_raw=arguments.raw)
        if isinstance(answer, Fault):
            found = [f"no stream: {answer.code}: {answer.message}"]
        elif stored is None:
            found = ["a new case" if arguments.force else "expected a recording; `--force` writes it"]
        else:
            found = _changes(folder, stored, case, answer)
        if arguments.force and not isinstance(answer, Fault):
            cases.write(folder, case, answer, is_replacing=True)
        changed += bool(found)
        for change in found:
            print(f"{case}: {change}")
    counted = "1 case" if len(requests) == 1 else f"{len(requests)} cases"
    print(f"{counted} recorded again, {changed} changed")
    return 1 if changed else 0


def _changes(folder: Path, stored: Path, case: str, answer: Recording) -> list[str]:
    """Return how a stream differs from its case: its provider, its kinds, members and order, and how it was cut off."""
    if stored.parent.name != replay.inputs_of(answer.provider):
        expected = next(source for source in replay.sources() if replay.inputs_of(source) == stored.parent.name)
        raise UsageError(f'`{case}`: expected an upstream with `api = "{expected}"`, as that of the case')
    found = drift(stored.read_bytes(), answer.data)
    settings = replay.load_settings(folder / replay.CASES_FILE)
    before, now = settings.get(case, settings[""]).close, answer.settings.get("close")
    return [*found, f"end: {now or 'not cut off'} (before: {before or 'not cut off'})"] if before != now else found


def _sent(
    settings: Any, upstream: str, request: Mapping[str, object], folder: Path, *, is_raw: bool
) -> Recording | Fault:
    """Send a request to an upstream, and return the recording of its stream, which can be written into a folder."""
    known = settings.all_upstreams.get(upstream)
    _check_api(DEFAULT_PROVIDER if known is None else known.api, request)
    cases.check_folder(folder)
    if is_raw:
        print_error("--raw saves the stream unredacted: do not commit it, it may contain secrets")
    answer: Recording | Fault = server_module("upstream.capture").record_response(
        settings, upstream, request, is_raw=is_raw
    )
    return answer


def _check_api(api: str, request: Mapping[str, object]) -> None:
    """Raise `UsageError` for a request of another API, which some servers answer with a useless stream."""
    own = PROVIDERS[api].content
    other = next((name for one in PROVIDERS.values() for name in one.content if name in request), None)
    if own and other is not None and not request.keys() & own:
        expected = " or ".join(f"`{name}`" for name in own)
        raise UsageError(f'the upstream has `api = "{api}"`: expected {expected} in the request, not `{other}`')


def replay_cases(arguments: argparse.Namespace) -> int:
    """Compare each case of a folder, or of one in a ZIP file, with its golden files; print the differences."""
    folder = Path(arguments.folder)
    if not folder.is_file():
        return _replay(arguments, folder)
    if arguments.update:
        raise UsageError(f"{folder}: `--update` writes into a folder; unpack the file first")
    with tempfile.TemporaryDirectory() as unpacked:
        cases.unpack(folder, Path(unpacked))
        try:
            return _replay(arguments, Path(unpacked))
        except UsageError as error:
            raise UsageError(str(error).replace(unpacked, arguments.folder)) from None


def _replay(arguments: argparse.Namespace, folder: Path) -> int:
    """Compare each case of a folder with its golden files; print the differences, and what was dropped."""
    every = load_cases(folder, arguments.config, arguments.policy)
    loaded = [case for case in every if replay.is_named(case.name, arguments.name)]
    differences: list[replay.Difference] = []
    drops: list[str] = []
    for case in loaded:
        for dialect in case.dialects:
            dropped: Counter[str] = Counter()
            difference = replay.compare(folder, case, dialect, update=arguments.update, dropped=dropped)
            if difference is not None:  # printed now, in case a later one cannot be read or written
                _print_difference(difference, is_update=arguments.update)
                differences.append(difference)
        drops += [line] if (line := replay.drops_of(case, dropped)) else []
    for difference in replay.orphans(folder, every, update=arguments.update, name=arguments.name):
        _print_difference(difference, is_update=arguments.update)
        differences.append(difference)
    if not (loaded or differences):
        raise UsageError(f"--name: no case in `{arguments.folder}` has the name `{arguments.name}`")
    for line in drops:
        print(line)
    if not arguments.update and any(difference.what == "golden is missing" for difference in differences):
        command = update_command(arguments.folder, arguments.config, arguments.policy, arguments.name)
        print(f"To write golden files: {command}")
    files = f"{len(differences)} file{'s' * (len(differences) != 1)} changed"
    done, found = ("written", files) if arguments.update else ("replayed", f"{len(differences)} differ")
    counted = "1 case" if len(loaded) == 1 else f"{len(loaded)} cases"
    chosen = {dialect for case in loaded for dialect in case.dialects}
    print(f"{counted} {done} in {len(chosen)} dialect{'s' * (len(chosen) != 1)}, {found}")
    return 1 if (differences and not arguments.update) or (drops and arguments.fail_on_dropped) else 0


def _print_difference(difference: replay.Difference, *, is_update: bool) -> None:
    what = _WRITTEN[difference.what] if is_update else difference.what
    print(f"{difference.dialect}/{difference.case}.ndjson: {what}")
    if difference.diff:
        print(paint_diff(difference.diff))


def update_command(folder: str, config: str | None = None, policy: str | None = None, name: str | None = None) -> str:
    """Return the command that writes the golden files of a folder, or of its cases with a name."""
    options = {"--config": config, "--policy": policy, "--name": name}
    given = [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["projector", "replay", folder, *given, "--update"])


def load_cases(folder: Path, config: str | None, policy: str | None) -> list[replay.Case]:
    """Load the cases of a folder; those without a policy get that of a configuration, if there is one."""
    loaded = replay.load_cases(folder)
    if config is None and policy is None:
        return loaded
    redactor = Redactor(*policy_of(config, policy))
    return [case if case.settings.policy else case._replace(redactor=redactor) for case in loaded]


def _only_upstream(settings: Any) -> str:
    """Return the name of the configured upstream; raise `UsageError` if there are several."""
    names = [*settings.all_upstreams]
    if len(names) > 1:
        raise UsageError(f"`--upstream`: expected {' or '.join(f'`{name}`' for name in names)}")
    return str(names[0])


def _request(name: str) -> dict[str, Any]:
    with opened(name) as source:
        try:
            request = codec.loads(source.read().removeprefix(BOM))
        except codec.CodecError:
            request = None
    if not isinstance(request, dict):
        raise UsageError(f"{name}: the request must be a JSON object")
    return request
