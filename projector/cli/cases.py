"""Commands on a folder of cases: record a new one, replay all of them."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from projector import recording
from projector._errors import UsageError
from projector.cli.servers import load_settings, server_module
from projector.cli.terminal import Progress, opened, paint_diff, print_error
from projector.contracts import codec
from projector.core.faults import Fault
from projector.dialects import DIALECTS
from projector.providers import DEFAULT_PROVIDER
from projector.recording import replay


def record_case(arguments: argparse.Namespace) -> int:
    """Send one request to an upstream and save its stream as a case."""
    settings = load_settings(arguments.config)
    if arguments.upstream is None and server_module("config.preflight").lacks_key(settings):
        raise UsageError("no upstream: set OPENAI_API_KEY (and OPENAI_BASE_URL), or name a configuration with --config")
    upstream, folder = arguments.upstream or _only_upstream(settings), Path(arguments.dir)
    name = arguments.name or f"{upstream}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    recording.check_name(folder, name)
    request = _request(arguments.request)
    known = settings.upstreams.get(upstream)
    _check_api(DEFAULT_PROVIDER if known is None else known.api, request)
    if arguments.raw:
        print_error("--raw saves the stream unredacted: do not commit it, it may contain secrets")
    answer = server_module("upstream.capture").record_response(settings, upstream, request, is_raw=arguments.raw)
    if isinstance(answer, Fault):
        print_error(f"{answer.code}: {answer.message}")
        return 1
    source = recording.write(folder, name, answer)
    print(f"{source}: {answer.events} events, {answer.withheld} values redacted")
    if close := answer.settings.get("close"):
        print(f"The stream was cut off, and the case ends the same way: {close}")
    elif answer.end not in {"", "completed"}:
        print(f"The stream did not complete, and the case ends the same way: {answer.end}")
    if not arguments.raw:
        print("Next: review the case, write its golden files, and commit both:")
        print(f"  projector replay {shlex.quote(str(folder))} --update")
    return 0


def _check_api(api: str, request: Mapping[str, object]) -> None:
    """Raise `UsageError` for a request of the other API, which some servers answer with a useless stream."""
    own, other = ("input", "messages") if api == DEFAULT_PROVIDER else ("messages", "input")
    if other in request and own not in request:
        raise UsageError(f'the upstream has `api = "{api}"`: expected `{own}` in the request, not `{other}`')


def replay_cases(arguments: argparse.Namespace) -> int:
    """Compare each case with its golden files and print the differences."""
    folder = Path(arguments.folder)
    cases = replay.load_cases(folder)
    differences: list[replay.Difference] = []
    with Progress("cases", len(cases) * len(DIALECTS)) as progress:
        for case in cases:
            for dialect in DIALECTS:
                difference = replay.compare(folder, case, dialect, update=arguments.update)
                differences += [difference] if difference is not None else []
                progress.advance(1)
    differences += replay.orphans(folder, cases, update=arguments.update)
    for difference in differences:
        print(f"{difference.dialect}/{difference.case}.ndjson: {difference.what}")
        if difference.diff:
            print(paint_diff(difference.diff))
    if any(difference.what == "golden is missing" for difference in differences):
        print(f"To write golden files: projector replay {shlex.quote(arguments.folder)} --update")
    done, found = ("written", "") if arguments.update else ("replayed", f", {len(differences)} differ")
    counted = "1 case" if len(cases) == 1 else f"{len(cases)} cases"
    print(f"{counted} {done} in {len(DIALECTS)} dialects{found}")
    return 1 if differences else 0


def _only_upstream(settings: Any) -> str:
    """Return the name of the configured upstream; raise `UsageError` if there are several."""
    names = [*settings.upstreams] or [server_module("config.settings").DEFAULT]
    if len(names) > 1:
        raise UsageError(f"`--upstream`: expected {' or '.join(f'`{name}`' for name in names)}")
    return str(names[0])


def _request(name: str) -> dict[str, Any]:
    with opened(name) as source:
        try:
            request = codec.loads(source.read())
        except codec.CodecError:
            request = None
    if not isinstance(request, dict):
        raise UsageError(f"{name}: the request must be a JSON object")
    return request
