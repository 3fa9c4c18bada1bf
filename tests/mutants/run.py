"""Run the tests against mutants: `python tests/mutants/run.py MUTANTS RESULTS`, in the environment of the tests.

One process imports and collects the tests once, and notes which test calls which function. Then it forks for each
mutant of a function, replaces the code of that function, and runs the tests that call it, the fastest first. A mutant
of code that runs at import is imported by another process, which has the libraries but not yet the package.

A run that was stopped continues: RESULTS has a line for each mutant that is done.
"""

from __future__ import annotations

import contextlib
import cProfile
import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

ROOT: Final = Path(__file__).parents[2]
FILES: Final = Path(os.environ.get("MUTANTS_FILES") or Path(__file__).with_name("files.txt"))
"""The files of tests that are run, one a line."""
LIBRARIES: Final = ("hypothesis", "pydantic", "orjson", "starlette.applications", "anyio", "yaml", "jsonschema")
"""What all processes share: they are imported before the package."""
OPTIONS: Final = (
    *("-q", "-s", "--tb=no", "--no-header", "--no-summary", "--assert=plain", "--timeout=0"),
    *("-p", "no:cacheprovider", "-p", "no:projector"),
)
PASSED, KILLED, TIMEOUT, NOT_REACHED = 0, 1, 2, 3
OUTCOMES: Final = ("survived", "killed", "timeout", "not reached")
LIMIT_S, LIMIT_FACTOR = 5.0, 6.0
"""Processor time for a test with a mutant: these seconds, or so many times what it takes under the profiler."""
MUTANT_LIMIT_S: Final = 240.0
"""Processor time for all tests of a mutant together. One that they do not find in this counts as a survivor."""
IMPORT_LIMIT_S: Final = 300.0
MEMORY_BYTES: Final = 4 << 30
PROFILED, PROFILED_GOLDENS = 2, 24
"""How many cases of a test, and of a test of the goldens, are profiled. The tests that reach a function are known by
them; all their cases run for a mutant that survives these."""
IMPORT_FILES: Final = 12
"""How many files of tests run for a mutant of code that runs at import."""

Mutant = dict[str, Any]


class Outcomes:
    """A plugin that ends the process at the first failure."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the process if a test failed."""
        if report.failed:
            os._exit(KILLED)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """End the process if a file of tests cannot be imported."""
        if report.failed:
            os._exit(KILLED)


class MutatedModule(MetaPathFinder):
    """An import hook that compiles one module from a mutated text."""

    def __init__(self, path: Path, source: str) -> None:
        name = path.relative_to(ROOT).as_posix().removesuffix(".py").removesuffix("/__init__")
        self._name, self._path, self._source = name.replace("/", "."), path, source

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return a loader for the mutated module, and nothing for others."""
        del path, target
        if name != self._name:
            return None
        source = self._source

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                del fullname
                return compile(source, self.path, "exec", dont_inherit=True)

        return spec_from_file_location(name, self._path, loader=Loader(name, str(self._path)))


def forked(work: Callable[[], int], limit_s: float) -> tuple[int, float]:
    """Do work in another process; return its outcome, and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if not pid:
        code = KILLED
        with contextlib.suppress(BaseException):
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            code = work()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if os.WIFSIGNALED(status):
        return TIMEOUT if os.WTERMSIG(status) == signal.SIGPROF else KILLED, spent
    return os.WEXITSTATUS(status), spent


def key_of(code: CodeType) -> str:
    """Return where a function is, and its name: a lambda may be on the same line."""
    return f"{Path(code.co_filename).relative_to(ROOT).as_posix()}:{code.co_firstlineno}:{code.co_qualname}"


def changed_function(original: CodeType, mutated: CodeType) -> tuple[CodeType, CodeType] | None:
    """Return the outermost function that differs, before and after; None if the difference runs at import."""
    before, after = list(_inner(original)), list(_inner(mutated))
    if _own(original) != _own(mutated) or len(before) != len(after):
        return None
    for one, other in zip(before, after, strict=True):
        if one != other:
            if not one.co_flags & CO_OPTIMIZED:  # the body of a class
                return changed_function(one, other)
            return None if one.co_name.startswith("<") else (one, other)
    return None


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (one for one in code.co_consts if isinstance(one, CodeType))


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what a code object does itself, without those inside it."""
    constants = tuple(repr(one) for one in code.co_consts if not isinstance(one, CodeType))
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable, constants


class Reach:
    """Which tests call which functions, and how long they take."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_known = path.exists()
        known = json.loads(path.read_text()) if self.is_known else {"imported": [], "tests": {}, "seconds": {}}
        self.imported: list[str] = known["imported"]
        self.tests: dict[str, list[str]] = known["tests"]
        self.seconds: dict[str, float] = known["seconds"]
        self._slowest: dict[str, float] = {}
        for name, spent in self.seconds.items():
            self._slowest[_function_of(name)] = max(spent, self._slowest.get(_function_of(name), 0.0))

    def profile(self, items: Iterable[pytest.Item], session: pytest.Session, imports: cProfile.Profile) -> None:
        """Run a few cases of each test, and write what they call."""
        groups: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            groups[_function_of(item.nodeid)].append(item)
        most = {name: PROFILED_GOLDENS if "/golden/" in name else PROFILED for name in groups}
        chosen = [item for name, group in groups.items() for item in group[:: -(-len(group) // most[name])]]
        failed: set[str] = set()

        class Failures:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if not report.passed:
                    failed.add(report.nodeid)

        session.config.pluginmanager.register(Failures())
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            profile, start = cProfile.Profile(), time.process_time()
            profile.enable()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            profile.disable()
            if item.nodeid not in failed:
                self.seconds[item.nodeid] = time.process_time() - start
                for key in _called(profile):
                    self.tests.setdefault(key, []).append(item.nodeid)
        self.imported = _called(imports)
        self._path.write_text(json.dumps({"imported": self.imported, "tests": self.tests, "seconds": self.seconds}))

    def of_function(self, key: str) -> list[str]:
        """Return the profiled cases that call a function: the fastest first, and each test once before others."""
        names = sorted(self.tests.get(key, ()), key=self.seconds.__getitem__)
        first = {_function_of(name): name for name in reversed(names)}
        return sorted(names, key=lambda name: first[_function_of(name)] != name)

    def usual_s(self, name: str) -> float:
        """Return what a case takes: as long as the slowest profiled case of its test, if it was not profiled."""
        return self.seconds.get(name) or self._slowest.get(_function_of(name), 0.0)

    def of_module(self, path: str) -> list[str]:
        """Return the files with the most calls of a module for their time, its own tests first."""
        calls: Counter[str] = Counter()
        for key, names in self.tests.items():
            if key.startswith(f"{path}:"):
                calls.update({_file_of(name) for name in names})
        seconds: Counter[str] = Counter()
        for name, spent in self.seconds.items():
            seconds[_file_of(name)] += spent
        files = sorted(calls, key=lambda name: calls[name] / (1.0 + seconds[name]), reverse=True)[:IMPORT_FILES]
        return sorted(files, key=lambda name: (Path(path).stem not in name, seconds[name]))


def _called(profile: cProfile.Profile) -> list[str]:
    codes = (entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType))
    return [key_of(code) for code in codes if code.co_filename.startswith(f"{ROOT}/projector/")]


def _function_of(name: str) -> str:
    return name.partition("[")[0]


def _file_of(name: str) -> str:
    return name.partition("::")[0]


class Functions:
    """A plugin in place of the loop of pytest: it runs the mutants of functions, and keeps the others."""

    def __init__(self, mutants: Iterable[Mutant], results: Path) -> None:
        self._mutants, self._results = mutants, results
        self._reach = Reach(results.with_suffix(".reach"))
        self._imports = cProfile.Profile()
        self.others: list[int] = []
        if not self._reach.is_known:
            self._imports.enable()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants of functions."""
        self._imports.disable()
        items = {item.nodeid: item for item in session.items}
        functions = self._live_functions()
        if not self._reach.is_known:
            forked(lambda: self._reach.profile(session.items, session, self._imports) or PASSED, 3_600.0)
            self._reach = Reach(self._results.with_suffix(".reach"))
        imported = set(self._reach.imported)
        for mutant in self._mutants:
            path = ROOT / mutant["path"]
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                texts = path.read_text(), mutant["mutated"]
                codes = [compile(text, path, "exec", dont_inherit=True) for text in texts]
            changed = changed_function(codes[0], codes[1])
            key = key_of(changed[0]) if changed else ""
            if changed is None or key not in functions:
                self.others.append(mutant["number"])
                continue
            quick = [items[name] for name in self._reach.of_function(key)]
            tests = {_function_of(item.nodeid) for item in quick}
            every = [item for item in session.items if _function_of(item.nodeid) in tests]
            every.sort(key=lambda item: self._reach.usual_s(item.nodeid))
            # the profiled cases of a test need not be those that reach the function
            files = () if key in imported else self._reach.of_module(mutant["path"])
            others = [item for item in session.items if _file_of(item.nodeid) in files]
            rest = [item for item in others if _function_of(item.nodeid) not in tests]
            code, spent = NOT_REACHED, 0.0
            for chosen in filter(None, (quick, every, rest)):
                limits_s = [max(LIMIT_S, LIMIT_FACTOR * self._reach.usual_s(item.nodeid)) for item in chosen]
                work = functools.partial(_run, functions[key], changed[1], chosen, limits_s, session)
                code, spent = forked(work, sum(limits_s))
                if code != PASSED:
                    break
            if code in {PASSED, NOT_REACHED} and key in imported:
                self.others.append(mutant["number"])
            else:
                record(self._results, mutant, code, spent)
        return True

    @staticmethod
    def _live_functions() -> dict[str, list[FunctionType]]:
        """Find the functions of the package, and empty its caches, which hide what fills them."""
        gc.unfreeze()
        functions: dict[str, list[FunctionType]] = defaultdict(list)
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(f"{ROOT}/projector/"):
                functions[key_of(one.__code__)].append(one)
            elif isinstance(one, functools._lru_cache_wrapper):
                one.cache_clear()
        gc.freeze()
        return functions


def _run(
    functions: Iterable[FunctionType],
    code: CodeType,
    items: Sequence[pytest.Item],
    limits_s: Sequence[float],
    session: pytest.Session,
) -> int:
    """Run tests with another code of a function, each within its processor time. The first failure ends the process."""
    for function in functions:
        function.__code__ = code
    session.config.pluginmanager.register(Outcomes())
    for item, limit_s, following in zip(items, limits_s, [*items[1:], None], strict=True):
        if time.process_time() > MUTANT_LIMIT_S:
            break
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return PASSED


def _import(mutant: Mutant, files: Sequence[str]) -> int:
    """Import the package with a mutated module, and run files of tests."""
    sys.meta_path.insert(0, MutatedModule(ROOT / mutant["path"], mutant["mutated"]))
    return PASSED if pytest.main([*OPTIONS, "-x", *files], plugins=[Outcomes()]) == pytest.ExitCode.OK else KILLED


def record(results: Path, mutant: Mutant, code: int, spent: float) -> None:
    """Write a result."""
    row = {name: value for name, value in mutant.items() if name != "mutated"}
    with results.open("a") as file:
        file.write(json.dumps({**row, "outcome": OUTCOMES[code], "seconds": round(spent, 2)}) + "\n")


def main(drawn: Path, results: Path) -> None:
    """Run the mutants of functions, then the others, and print the counts and the survivors."""
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(results.with_suffix(".hypothesis"))
    for library in LIBRARIES:
        importlib.import_module(library)
    # a failure is enough: making its example small takes minutes
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")
    mutants = [{**json.loads(line), "number": number} for number, line in enumerate(drawn.read_text().splitlines())]
    done = {row["number"] for row in _rows(results)}
    tests = FILES.read_text().split()
    read, write = os.pipe()
    pid = os.fork()  # the package is imported there, not here
    if not pid:
        plugin = Functions([one for one in mutants if one["number"] not in done], results)
        pytest.main([*OPTIONS, *tests], plugins=[plugin])
        with os.fdopen(write, "w") as pipe:
            json.dump(plugin.others, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        others = json.load(pipe)
    os.waitpid(pid, 0)
    reach = Reach(results.with_suffix(".reach"))
    for number in others:
        work = functools.partial(_import, mutants[number], reach.of_module(mutants[number]["path"]) or tests)
        record(results, mutants[number], *forked(work, IMPORT_LIMIT_S))
    rows = _rows(results)
    for (room, outcome), count in sorted(Counter((Path(row["path"]).parts[1], row["outcome"]) for row in rows).items()):
        sys.stdout.write(f"{room}: {count} {outcome}\n")
    for row in rows:
        if row["outcome"] in {"survived", "not reached"}:
            sys.stdout.write(f"{row['path']}:{row['line']} {row['outcome']}: {row['changes']}\n")


def _rows(results: Path) -> list[Mutant]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


if __name__ == "__main__":
    os.chdir(ROOT)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
