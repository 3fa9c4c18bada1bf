"""A pytest plugin: each case of a folder, in each dialect, is a test that compares it with its golden.

    [tool.pytest.ini_options]
    projector_cases = ["tests/streams"]      # or: pytest --projector-cases tests/streams

The folders are collected when pytest is not told what to run; `pytest DIR/<provider>/<case>.ndjson::<dialect>` runs one
test. Goldens are written by `projector replay DIR --update`, never here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector import UsageError
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS
from projector.recording import replay

_FOLDERS: Final = pytest.StashKey[dict[Path, dict[str, replay.Case] | None]]()
"""The folders of a run, and their cases by name; None until they are loaded."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting."""
    about = "folder of recorded provider streams whose goldens are tests"
    parser.getgroup("projector").addoption("--projector-cases", action="append", default=[], metavar="DIR", help=about)
    parser.addini("projector_cases", about, type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Have the folders collected, or stop where one of them holds no cases."""
    asked = [config.invocation_params.dir / name for name in config.getoption("projector_cases")]
    named = config.getini("projector_cases")
    folders = [folder.resolve() for folder in [*asked, *named]]
    config.stash[_FOLDERS] = dict.fromkeys(folders)
    is_whole_run = config.args_source is not pytest.Config.ArgsSource.ARGS
    for folder in folders if is_whole_run else folders[: len(asked)]:
        try:
            replay.load_cases(folder)
        except UsageError as error:
            raise pytest.UsageError(f"projector_cases: {error}") from None
        if not any(folder.is_relative_to(path) for path in _paths(config)):
            config.args.append(str(folder))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Give the tests of an input, and of a golden whose input is missing."""
    folder, kind = file_path.parent.parent, file_path.parent.name
    if file_path.suffix != ".ndjson" or folder not in parent.config.stash[_FOLDERS]:
        return None
    if kind in PROVIDERS:
        return CaseFile.from_parent(parent, path=file_path)
    is_orphan = kind in DIALECTS and not any((folder / name / file_path.name).exists() for name in PROVIDERS)
    return OrphanFile.from_parent(parent, path=file_path) if is_orphan else None


class CaseFile(pytest.File):
    """One input."""

    def collect(self) -> Iterable[pytest.Item]:
        """Give a test for each dialect."""
        cases = _cases(self.config, self.path.parent.parent)
        return [GoldenItem.from_parent(self, name=dialect, case=cases[self.path.stem]) for dialect in DIALECTS]


class OrphanFile(pytest.File):
    """One golden without an input."""

    def collect(self) -> Iterable[pytest.Item]:
        """Give a test that fails."""
        return [OrphanItem.from_parent(self, name="input")]


class DiffersError(Exception):
    """A case is not what its golden says; the message is for people."""


class _Item(pytest.Item):
    """A test that explains itself."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Give what differs, without a traceback: no code of the user's is to blame."""
        if isinstance(excinfo.value, DiffersError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def fail(self, difference: replay.Difference) -> None:
        """Fail, with what to do about it."""
        folder = self.path.parent.parent
        raise DiffersError(
            f"{difference.dialect}/{difference.case}.ndjson: {difference.what}\n{difference.diff}\n"
            f"If it is meant: projector replay {folder} --update"
        )


class GoldenItem(_Item):
    """One case in one dialect."""

    def __init__(self, *, case: replay.Case, **more: Any) -> None:
        super().__init__(**more)
        self._case = case

    def runtest(self) -> None:
        """Compare the case with its golden."""
        difference = replay.compare(self.path.parent.parent, self._case, self.name, update=False)
        if difference is not None:
            self.fail(difference)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Give the heading of a failure."""
        return self.path, None, f"{self._case.name} in {self.name}"


class OrphanItem(_Item):
    """One golden that nothing makes."""

    def runtest(self) -> None:
        """Fail."""
        self.fail(replay.Difference(self.path.stem, self.path.parent.name, "input is missing"))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Give the heading of a failure."""
        return self.path, None, f"{self.path.stem} in {self.path.parent.name}"


def _paths(config: pytest.Config) -> Iterator[Path]:
    """Give what is collected."""
    for argument in config.args:
        yield (config.invocation_params.dir / argument.partition("::")[0]).resolve()


def _cases(config: pytest.Config, folder: Path) -> dict[str, replay.Case]:
    folders = config.stash[_FOLDERS]
    cases = folders[folder]
    if cases is None:
        try:
            cases = folders[folder] = {case.name: case for case in replay.load_cases(folder)}
        except UsageError as error:
            raise pytest.Collector.CollectError(str(error)) from None
    return cases
