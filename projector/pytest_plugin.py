"""A pytest plugin: each case of a folder, in each dialect, is a test that compares the output with its golden file.

    [tool.pytest.ini_options]
    projector_cases = ["tests/streams"]      # or: pytest --projector-cases tests/streams

The folders are collected when pytest runs without arguments; `pytest DIR/<provider>/<case>.ndjson::<dialect>` runs one
test. `projector replay DIR --update` writes golden files; this plugin never does.

pytest loads this module in every project that has the package installed, so the rest of the package is imported only
where a folder of cases is used.
"""

from __future__ import annotations

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
    is_orphan = kind in projector.DIALECTS and not any((folder / name / file_path.name).exists() for name in _inputs())
    return _File.from_parent(parent, path=file_path) if is_orphan or kind in _inputs() else None


class _File(pytest.File):
    """One input, with a test for each dialect; or a golden file without an input, with one that fails."""

    def collect(self) -> Iterable[pytest.Item]:
        from projector.recording import replay  # noqa: PLC0415 - see the module docstring

        folder, kind = self.path.parent.parent, self.path.parent.name
        if kind not in _inputs():
            missing = replay.Difference(self.path.stem, kind, "input is missing")
            return [_Item.from_parent(self, name="input", of=kind, compare=lambda: missing)]
        case = _cases(self.config, folder)[self.path.stem]
        return [
            _Item.from_parent(self, name=one, of=one, compare=partial(replay.compare, folder, case, one, update=False))
            for one in case.dialects
        ]


class DiffersError(Exception):
    """The output of a case differs from its golden file."""


class _Item(pytest.Item):
    """A test of one case in one dialect, `of`; it fails with a difference instead of a traceback."""

    def __init__(self, *, of: str, compare: Callable[[], Difference | None], **more: Any) -> None:
        super().__init__(**more)
        self._of = of
        self._compare = compare

    def runtest(self) -> None:
        difference = self._compare()
        if difference is not None:
            raise DiffersError(
                f"{difference.dialect}/{difference.case}.ndjson: {difference.what}\n{difference.diff}\n"
                f"To accept it: projector replay {self.path.parent.parent} --update"
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, DiffersError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

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
    from projector.recording import replay  # noqa: PLC0415 - see the module docstring

    folders = config.stash[_FOLDERS]
    cases = folders[folder]
    if cases is None:
        try:
            cases = folders[folder] = {case.name: case for case in replay.load_cases(folder)}
        except projector.UsageError as error:
            raise pytest.Collector.CollectError(str(error)) from None
    return cases
