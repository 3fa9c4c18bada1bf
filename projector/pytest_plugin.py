"""A pytest plugin: each case of a folder, in each dialect, is a test that compares the output with its golden file.

    [tool.pytest.ini_options]
    projector_cases = ["tests/streams"]      # or: pytest --projector-cases tests/streams

The folders are collected when pytest runs without arguments; `pytest DIR/<provider>/<case>.ndjson::<dialect>` runs one
test. `projector replay DIR --update` writes golden files; this plugin never does.

pytest loads this module in every project that has the package installed, so the rest of the package is imported only
where a folder of cases is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    parser.getgroup("projector").addoption("--projector-cases", action="append", default=[], metavar="DIR", help=about)
    parser.addini("projector_cases", about, type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Add the folders to what is collected; raise a usage error if one of them has no cases."""
    requested = [config.invocation_params.dir / name for name in config.getoption("projector_cases")]
    folders = [folder.resolve() for folder in [*requested, *config.getini("projector_cases")]]
    config.stash[_FOLDERS] = dict.fromkeys(folders)
    if not folders:
        return
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    is_whole_run = config.args_source is not pytest.Config.ArgsSource.ARGS
    for folder in folders if is_whole_run else folders[: len(requested)]:
        try:
            replay.load_cases(folder)
        except projector.UsageError as error:
            raise pytest.UsageError(f"projector_cases: {error}") from None
        if not any(folder.is_relative_to(path) for path in _paths(config)):
            config.args.append(str(folder))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for an input, or for a golden file without an input."""
    folder, kind = file_path.parent.parent, file_path.parent.name
    if file_path.suffix != ".ndjson" or folder not in parent.config.stash[_FOLDERS]:
        return None
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    inputs = [*map(replay.inputs_of, replay.sources())]
    if kind in inputs:
        return _CaseFile.from_parent(parent, path=file_path)
    is_orphan = kind in projector.DIALECTS and not any((folder / name / file_path.name).exists() for name in inputs)
    return _OrphanFile.from_parent(parent, path=file_path) if is_orphan else None


class _CaseFile(pytest.File):
    """One input: a test for each dialect."""

    def collect(self) -> Iterable[pytest.Item]:
        case = _cases(self.config, self.path.parent.parent)[self.path.stem]
        return [_GoldenItem.from_parent(self, name=dialect, case=case) for dialect in case.dialects]


class _OrphanFile(pytest.File):
    """One golden file without an input: a test that fails."""

    def collect(self) -> Iterable[pytest.Item]:
        return [_OrphanItem.from_parent(self, name="input")]


class DiffersError(Exception):
    """The output of a case differs from its golden file."""


class _Item(pytest.Item):
    """A test that fails with a difference instead of a traceback."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, DiffersError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def fail(self, difference: Difference) -> None:
        folder = self.path.parent.parent
        raise DiffersError(
            f"{difference.dialect}/{difference.case}.ndjson: {difference.what}\n{difference.diff}\n"
            f"To accept it: projector replay {folder} --update"
        )


class _GoldenItem(_Item):
    """One case in one dialect."""

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self._case = case

    def runtest(self) -> None:
        from projector.recording import replay  # noqa: PLC0415 - see the module docstring

        difference = replay.compare(self.path.parent.parent, self._case, self.name, update=False)
        if difference is not None:
            self.fail(difference)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self._case.name} in {self.name}"


class _OrphanItem(_Item):
    """One golden file without an input."""

    def runtest(self) -> None:
        from projector.recording import replay  # noqa: PLC0415 - see the module docstring

        self.fail(replay.Difference(self.path.stem, self.path.parent.name, "input is missing"))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.stem} in {self.path.parent.name}"


def _paths(config: pytest.Config) -> Iterator[Path]:
    """Yield the paths that are collected."""
    for argument in config.args:
        yield (config.invocation_params.dir / argument.partition("::")[0]).resolve()


def _cases(config: pytest.Config, folder: Path) -> dict[str, Case]:
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    folders = config.stash[_FOLDERS]
    cases = folders[folder]
    if cases is None:
        try:
            cases = folders[folder] = {case.name: case for case in replay.load_cases(folder)}
        except projector.UsageError as error:
            raise pytest.Collector.CollectError(str(error)) from None
    return cases
