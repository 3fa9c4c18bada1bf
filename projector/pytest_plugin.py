"""A pytest plugin: each case of a folder, in each dialect, is a test that compares the output with its golden file.

    [tool.pytest.ini_options]
    projector_cases = ["tests/streams"]      # or: pytest --projector-cases tests/streams

With `projector_config = "projector.toml"`, and `projector_policy` if it has several, cases without a policy in
`cases.toml` have that of the configuration, as with `projector replay --config`.

With `projector_fail_on_dropped = true`, or `--projector-fail-on-dropped`, each input has one more test, `dropped`. It
fails if input was dropped without a reason in the tables and is not named in `dropped` of `cases.toml`.

The folders are collected when pytest runs without arguments; `pytest DIR/<provider>/<case>.ndjson::<dialect>` runs one
test. `projector replay DIR --update` writes golden files; this plugin never does.

pytest loads this module in every project that has the package installed, so the rest of the package is imported only
where a folder of cases is used.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import projector

if TYPE_CHECKING:
    from projector.recording.replay import Case, Difference

_FOLDERS: Final = pytest.StashKey["dict[Path, dict[str, Case] | None]"]()
"""Folder -> its cases by name; None until they are loaded."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting."""
    about = "folder of cases: recorded provider streams with their golden files"
    dropped = "fail for input that was dropped without a reason in the tables, such as an unknown event"
    group = parser.getgroup("projector")
    group.addoption("--projector-cases", action="append", default=[], metavar="DIR", help=about)
    group.addoption("--projector-fail-on-dropped", action="store_true", help=dropped)
    parser.addini("projector_cases", about, type="paths", default=[])
    policy = "configuration whose policy cases without one have"
    parser.addini("projector_config", policy, type="linelist", default=[])  # a path may have spaces
    parser.addini("projector_policy", "policy of the configuration, if it has several", default=None)
    parser.addini("projector_fail_on_dropped", dropped, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Add the folders to what is collected; raise a usage error if one of them has no cases."""
    requested = [config.invocation_params.dir / name for name in config.getoption("projector_cases")]
    folders = [folder.resolve() for folder in [*requested, *config.getini("projector_cases")]]
    config.stash[_FOLDERS] = dict.fromkeys(folders)
    if not folders:
        return
    is_whole_run = config.args_source is not pytest.Config.ArgsSource.ARGS
    for folder in folders if is_whole_run else folders[: len(requested)]:
        try:
            _cases(config, folder)
        except projector.UsageError as error:
            raise pytest.UsageError(f"projector_cases: {error}") from None
        if not any(folder.is_relative_to(path) for path in _paths(config)):
            config.args.append(str(folder))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for an input, or for a golden file."""
    folder, kind = file_path.parent.parent, file_path.parent.name
    if folder not in parent.config.stash[_FOLDERS]:
        return None
    from projector.recording.replay import FILES  # noqa: PLC0415 - see the module docstring

    if not file_path.match(FILES):
        return None
    return _File.from_parent(parent, path=file_path) if kind in {*projector.DIALECTS, *_inputs()} else None


class _File(pytest.File):
    """One input, with a test for each dialect; or a golden file, with one that fails if no input has it."""

    def collect(self) -> Iterable[pytest.Item]:
        from projector.cli.cases import update_command  # noqa: PLC0415 - see the module docstring
        from projector.recording import replay  # noqa: PLC0415 - as above

        folder, kind = self.path.parent.parent, self.path.parent.name
        try:
            cases = _cases(self.config, folder)
        except projector.UsageError as error:
            raise self.CollectError(str(error)) from None
        if not cases:
            return []
        command = update_command(str(folder), *_configuration(self.config), glob.escape(self.path.stem))
        if kind not in _inputs():
            chosen = cases[self.path.stem].dialects if self.path.stem in cases else None
            orphan = replay.orphan_of(self.path.stem, kind, chosen)
            check = partial(_told, orphan, command)
            return [] if orphan is None else [_Item.from_parent(self, name="input", of=kind, check=check)]
        case = cases[self.path.stem]
        checks = {
            one: lambda one=one: _told(replay.compare(folder, case, one, update=False), command)
            for one in case.dialects
        }
        if self.config.getoption("projector_fail_on_dropped") or self.config.getini("projector_fail_on_dropped"):
            checks["dropped"] = partial(_told_drops, case)
        return [_Item.from_parent(self, name=name, of=name, check=check) for name, check in checks.items()]


def _told(difference: Difference | None, command: str) -> str:
    """Return the text of a failure, empty without one."""
    if difference is None:
        return ""
    place = f"{difference.dialect}/{difference.case}.ndjson: {difference.what}"
    return f"{place}\n{difference.diff}\nTo accept it: {command}"


def _told_drops(case: Case) -> str:
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    drops = replay.drops_of(case)
    return f"{drops}\nTo accept it: name it in the list `dropped` of the case in {replay.CASES_FILE}" if drops else ""


class _Item(pytest.Item):
    """A test of one case: in one dialect, `of`, or of what was dropped; it fails with a text instead of a traceback."""

    def __init__(self, *, of: str, check: Callable[[], str], **more: Any) -> None:
        super().__init__(**more)
        self._of = of
        self._check = check

    def runtest(self) -> None:
        if failure := self._check():
            pytest.fail(failure, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.stem} in {self._of}"


def _inputs() -> list[str]:
    """Return the names of folders of inputs."""
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    return [*map(replay.inputs_of, replay.sources())]


def _paths(config: pytest.Config) -> Iterator[Path]:
    """Yield the paths that are collected."""
    for argument in config.args:
        yield (config.invocation_params.dir / argument.partition("::")[0]).resolve()


def _cases(config: pytest.Config, folder: Path) -> dict[str, Case]:
    """Return the cases of a folder by name; raise `UsageError` if they are not valid, and then return none."""
    from projector.cli.cases import load_cases  # noqa: PLC0415 - see the module docstring

    folders = config.stash[_FOLDERS]
    if (cases := folders[folder]) is None:
        cases = folders[folder] = {}
        cases.update((case.name, case) for case in load_cases(folder, *_configuration(config)))
    return cases


def _configuration(config: pytest.Config) -> tuple[str | None, str | None]:
    """Return the configuration of the cases and the name of its policy; raise `UsageError` if there are several."""
    files = config.getini("projector_config")
    if len(files) > 1:
        raise projector.UsageError("`projector_config`: expected one file")
    folder = config.invocation_params.dir if config.inipath is None else config.inipath.parent
    return next((str(folder / name) for name in files), None), config.getini("projector_policy") or None
