"""External requirements of the tests, skips if they are missing, and the tiers of `make test` and `make test-all`."""

from __future__ import annotations

import filecmp
import functools
import gc
import importlib
import os
import platform
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
PACKAGES = ("projector",)
REQUIRED = frozenset(os.environ.get("PROJECTOR_TESTS_REQUIRE", "").split())

for name in ("HTTPS_PROXY", "https_proxy"):  # of the machine: a server warns of them
    os.environ.pop(name, None)

settings.register_profile(
    "any machine",
    settings.default,
    deadline=None,  # a busy machine is slow, not wrong
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="PROJECTOR_TESTS_EFFORT" not in os.environ,  # `make fuzz` draws other examples in each run
)
settings.load_profile("any machine")
# "derandomized" draws would also contain constants of the modules that are loaded: those that tests before it imported
vars(providers).update(_get_local_constants=lambda: providers._local_constants)


SAMPLED: Final = {
    "asgi": 20,
    "contract/test_openwop_schemas.py": 4,
    "contract/test_schemas.py": 2,
    "contract/test_toy_dialect.py::test_writing_a_stream_loads_no_other_dialect_and_no_models": 6,
    "contract/test_toy_provider.py": 3,
    "golden/test_goldens.py": 3,
    "golden/test_goldens.py::test_goldens_obey_the_models_and_rules_of_their_dialects": 1,
    "golden/test_goldens.py::test_it_does_not_matter_how_the_bytes_arrive": 48,
    "property": 60,
    "property/test_cuts.py": 16,
    "store": 8,
    "store/test_interleavings.py::test_some_orders_in_memory": 1,
    "unit/test_agents_sdk.py": 2,
    "unit/test_cli.py": 3,
    "unit/test_cli.py::test_a_reader_that_leaves_early_is_no_failure": 4,
    "unit/test_client_failures.py": 2,
    "unit/test_gemini.py::test_cuts_do_not_matter": 8,
    "unit/test_harmless.py": 4,
    "unit/test_joined_texts.py::test_the_texts_of_a_dialect_joined": 4,
    "unit/test_own_rules.py": 2,
    "unit/test_personal_data.py::test_a_value_is_withheld_at_every_cut": 4,
    "unit/test_phone_numbers.py": 3,
    "unit/test_phone_numbers.py::test_nothing_of_a_number_with_an_extension_is_shown": 6,
    "unit/test_phone_numbers.py::test_nothing_of_two_numbers_is_shown": 12,
    "unit/test_pytest_plugin.py": 3,
    "unit/test_readings.py::test_what_is_hidden_is_found": 4,
    "unit/test_redact_command.py": 3,
    "unit/test_redaction_contexts.py::test_pieces_of_a_hash_are_withheld_wherever_they_are_cut": 8,
    "unit/test_redaction_contexts.py::test_strings_of_an_array_are_read_as_one_text_however_they_arrive": 6,
    "unit/test_redaction_formats.py::test_a_beginning_that_turns_out_otherwise_is_given_back": 8,
    "unit/test_redaction_formats.py::test_an_escape_that_was_not_decoded_ends_a_word": 8,
    "unit/test_redaction_formats.py::test_cleaning_twice_is_cleaning_once": 8,
    "unit/test_redaction_formats.py::test_its_anchor_is_long_enough": 8,
    "unit/test_redaction_formats.py::test_no_class_takes_what_the_next_piece_needs": 8,
    "unit/test_redaction_formats.py::test_nothing_of_the_example_but_a_context_is_said": 8,
    "unit/test_redaction_formats.py::test_the_counter_example_passes": 8,
    "unit/test_redaction_formats.py::test_the_example_is_found_by_its_own_row": 8,
    "unit/test_redaction_formats.py::test_what_is_said_of_a_beginning_stays_true": 8,
    "unit/test_redaction_rule_files.py": 3,
    "unit/test_stream_rules.py": 2,
    "unit/test_text_redaction.py": 2,
    "unit/test_text_redaction.py::test_credentials_in_text": 1,
    "unit/test_text_redaction.py::test_every_split_of_a_sample_into_two": 48,
    "unit/test_text_redaction.py::test_splits_of_a_sample_into_three": 400,
    "unit/test_text_tails.py::test_nothing_of_a_credential_is_shown_behind_the_seam": 96,
}
"""Folder, file or test -> one in how many is in `make test`, chosen by its name; the others are in `make test-all`."""
REST: Final = {
    "clients": "real clients of the protocols, under node too",
    "corpus": "recorded streams of others, which a user does not have",
    "deploy": "nginx, Next.js, the built wheel",
    "fuzz": "mutated streams",
    "asgi/test_ai_sdk_client.py": "chats of three versions under node",
    "asgi/test_tanstack_client.py": "hundreds of connections of a client under node",
    "asgi/test_matrix.py": "a thousand requests",
    "asgi/test_codex.py": "sessions of a coding agent, under node",
    "asgi/test_chaos.py": "thousands of faults, in processes",
    "asgi/test_cluster_faults.py": "the same",
    "asgi/test_commit_orders.py": "tens of thousands of orders of signals",
    "asgi/test_disconnects.py": "a thousand connections",
    "asgi/test_limits.py": "hundreds of streams at a time",
    "asgi/test_memory_attacks.py": "hundreds of megabytes, in processes",
    "asgi/test_openwop_limits.py": "the same",
    "contract/test_bench_compare.py": "servers in processes",
    "contract/test_bench_inputs.py": "the subjects of the benchmarks",
    "contract/test_openwop_is_apart.py": "processes",
    "contract/test_sdk_members.py": "a stream for each variant of each item of an SDK",
    "contract/test_startup.py": "processes",
    "contract/test_clean_types.py::test_only_redaction_makes_clean_values": "reads the whole package",
    "asgi/test_openwop_page.py": "processes",
    "asgi/test_openapi.py": "requests derived from the schemas of all dialects",
    "asgi/test_openwop_openapi.py": "the same",
    "asgi/test_init_command.py::test_a_case_serves": "processes",
    "asgi/test_request_log.py::test_the_life_of_a_process_is_logged": "processes",
    "asgi/test_interpreter.py": "processes, and collections of all objects",
    "asgi/test_openwop_calls.py": "the protocol's client",
    "asgi/test_outages.py": "servers whose store is away for seconds",
    "asgi/test_process.py": "processes and signals",
    "asgi/test_replicas.py": "servers that share Redis, in processes",
    "asgi/test_signals.py": "the same",
    "asgi/test_slow_readers.py": "tens of megabytes, in processes",
    "unit/test_compiling.py": "compiles all patterns, which takes a second",
    "golden/test_stored_streams.py": "each golden, read again after each of its events",
    "property/test_openwop_properties.py": "hundreds of drawn streams",
    "property/test_recording_properties.py": "thousands of recordings",
    "store/test_bench_store.py": "the subjects of the benchmark",
    "store/test_interleavings.py::test_any_order": "hundreds of orders",
    "store/test_interleavings.py::test_any_order_in_redis": "the same",
    "store/test_redis.py": "servers that are killed",
    "store/test_cluster.py": "the same",
    "property/test_linear.py": "counted line by line",
    "property/test_redaction_draws.py": "thousands of texts",
    "property/test_openwop_linear.py": "the same",
    "property/test_recording_linear.py": "the same",
    "property/test_text_linear.py": "the same",
    "property/test_redaction_linear.py": "the same",
    "property/test_dialect_properties.py::test_cost_is_linear": "the same",
    "property/test_openai_chat_properties.py::test_cost_is_linear": "the same",
    "property/test_sse_properties.py::test_cost_is_linear": "the same",
    "unit/test_provider_messages.py::test_hostile_text_takes_linear_time": "the same",
    "unit/test_stream_rules.py::test_cost_is_linear": "the same",
    "unit/test_harmless_sources.py::test_sources_stay": "1,200 files",
    "unit/test_personal_data.py::test_many_values_are_withheld_at_every_cut": "every cut of long texts",
    "unit/test_phone_numbers.py::test_cuts_do_not_matter": "the same",
    "unit/test_redaction_arguments.py::test_arguments_without_end_are_not_kept_for_ever": "megabytes of JSON",
    "property/test_redaction_streams.py::test_scraps_are_cleaned_the_same_for_every_cut": "every cut of long texts",
    "unit/test_text_redaction.py::test_long_texts_are_the_same_at_every_cut": "a text of all samples, in five ways",
    "unit/test_harmless_sources.py": "1,200 files",
    "unit/test_redaction_bounds.py::test_the_budget_holds_and_notices_name_places": "a million characters",
    "unit/test_ag_ui.py::test_large_trees_are_truncated_with_a_notice": "megabytes of JSON",
    "unit/test_pipeline.py::test_an_ended_stream_keeps_nothing_of_what_it_said": "searches all objects of the process",
}
"""Folder, file or test -> why none of it is in `make test`."""
DOCS: Final = "docs"
"""Tests of prose; they are part of `make check`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    parser.addoption("--tier", choices=("test", "rest"), help="tests of `make test`, or those of `make test-all`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip folders and files without a test of the tier, which saves their import."""
    tier = config.getoption("tier")
    path = collection_path.relative_to(ROOT / "tests").as_posix() if ROOT / "tests" in collection_path.parents else ""
    if tier is None or not path:
        return None
    if "/" in path:
        return True if tier == "test" and path in REST else None
    has_both = any(row.partition("/")[0] == path for row in (*SAMPLED, *REST))
    tiers = {DOCS} if path == DOCS else {"rest"} if path in REST else {"test", "rest"} if has_both else {"test"}
    return True if collection_path.is_dir() and tier not in tiers else None


def pytest_collection_finish() -> None:
    """Keep tens of thousands of tests out of each garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one tier; without `--tier`, all of them."""
    tier = config.getoption("tier")
    if tier is not None:
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            (kept if _tier_of(item) == tier else left).append(item)
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _tier_of(item: pytest.Item) -> str:
    """Return `test`, `rest`, or `docs` for what belongs to `make check`."""
    fixed, one_in = _row_of(item.path, getattr(item, "originalname", item.name))
    is_left = zlib.crc32(item.nodeid.encode()) % one_in or item.get_closest_marker("rest") is not None
    return fixed or ("rest" if is_left else "test")


@functools.cache
def _row_of(file: Path, function: str) -> tuple[str | None, int]:
    """Return the tier of all tests of a function, if they have one, and else one in how many is in `make test`."""
    path = file.relative_to(ROOT / "tests").as_posix()
    parts = (path.partition("/")[0], path, f"{path}::{function}")
    one_in = next((SAMPLED[part] for part in reversed(parts) if part in SAMPLED), 1)
    if DOCS in parts:
        return DOCS, one_in
    return "rest" if any(part in REST for part in parts) else None, one_in


def _missing(need: str, reason: str) -> None:
    """Skip, or fail if `.ci/run` declares the requirement mandatory."""
    if need in REQUIRED:
        pytest.fail(f"required here, but missing: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_server(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Redis server with an empty database, which is never too slow for servers in this process."""
    from bench.redis_server import RedisServer  # noqa: PLC0415 - it imports the client of Redis
    from projector.store import redis_connection, redis_store  # noqa: PLC0415 - the same

    with (
        pytest.MonkeyPatch.context() as patch,
        RedisServer(program("redis-server"), tmp_path_factory.mktemp("redis")) as server,
    ):
        patch.setattr(redis_connection, "COMMAND_S", 60.0)
        patch.setattr(redis_store, "PRESENT_S", 0.0)  # time passes by shortening leases
        yield server


@pytest.fixture(scope="session")
def redis_cluster(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Redis Cluster of three primaries and three replicas, which is never too slow for servers in this process."""
    from bench.redis_cluster import RedisCluster  # noqa: PLC0415 - it imports the client of Redis
    from projector.store import redis_connection, redis_servers, redis_store  # noqa: PLC0415 - the same

    programs = program("redis-server"), program("redis-cli")
    with (
        pytest.MonkeyPatch.context() as patch,
        RedisCluster(*programs, tmp_path_factory.mktemp("cluster")) as cluster,
    ):
        patch.setattr(redis_connection, "COMMAND_S", 60.0)
        patch.setattr(redis_servers, "ASIDE_S", 60.0)
        patch.setattr(redis_store, "PRESENT_S", 0.0)  # time passes by shortening leases
        yield cluster


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded provider streams."""
    if not (SHARED / "corpus").is_dir():
        _missing("shared", "../shared/corpus is not on this machine")
    return SHARED / "corpus"


@pytest.fixture(scope="session")
def openwop() -> Path:
    """The folder of OpenWOP's own schemas and fixtures."""
    if not (SHARED / "openwop").is_dir():
        _missing("shared", "../shared/openwop is not on this machine")
    return SHARED / "openwop"


@pytest.fixture(scope="session")
def agents_sdk() -> ModuleType:
    """The Agents SDK, which is an extra."""
    try:
        return importlib.import_module("agents")
    except ImportError:
        _missing("agents_sdk", "the Agents SDK is not installed")
        raise


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder tests/node, with node on the machine and its packages installed."""
    folder = ROOT / "tests" / "node"
    if shutil.which("node") is None:
        _missing("node", "node is not on this machine")
    if not (folder / "node_modules").is_dir():
        _missing("node", "tests/node has no node_modules: run `npm ci` there")
    return folder


@pytest.fixture(scope="session")
def claude_code(node_modules: Path) -> Path:
    """The program Claude Code, of a package of tests/node that Linux with glibc has."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    path = node_modules / f"node_modules/@anthropic-ai/claude-agent-sdk-{sys.platform}-{machine}/claude"
    if not path.is_file():
        _missing("node", "Claude Code is not installed: run `npm ci` in tests/node on Linux")
    return path


@pytest.fixture(scope="session")
def typescript_client() -> Path:
    """The folder clients/typescript, with node on the machine and its packages installed."""
    folder = ROOT / "clients" / "typescript"
    if shutil.which("node") is None:
        _missing("typescript_client", "node is not on this machine")
    if not (folder / "node_modules").is_dir():
        _missing("typescript_client", "clients/typescript has no node_modules: run `npm ci` there")
    return folder


@pytest.fixture(scope="session")
def python_clients() -> Path:
    """The interpreter of `.clients`, which has the Python clients of the OpenAI API and of Anthropic."""
    python = ROOT / ".clients" / "bin" / "python"
    if not (ROOT / ".clients" / "ready").is_file():
        _missing("python_clients", "the clients are not installed: run `make .clients/ready`")
    return python


@pytest.fixture(scope="session")
def site_tools() -> Path:
    """The programs of `.site`, which build the documentation site."""
    if not (ROOT / ".site" / "ready").is_file():
        _missing("site", "the tools of the site are not installed: run `make .site/ready`")
    return ROOT / ".site" / "bin"


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Find a program by its name, or skip the test."""
    path = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"  # where Debian puts nginx

    def find(name: str) -> str:
        found = shutil.which(name, path=path)
        if found is None:
            _missing(name, f"{name} is not on this machine")
        return str(found)

    return find


@pytest.fixture(scope="session")
def curl(program: Callable[[str], str]) -> str:
    """The program curl."""
    return program("curl")


@pytest.fixture(scope="session")
def nginx(program: Callable[[str], str]) -> str:
    """The program nginx."""
    return program("nginx")


@pytest.fixture(scope="session")
def nextjs() -> Path:
    """The folder deploy/nextjs, with node on the machine and its packages installed."""
    folder = ROOT / "deploy" / "nextjs"
    if shutil.which("node") is None:
        _missing("nextjs", "node is not on this machine")
    if not (folder / "node_modules" / "public-stream-client" / "dist").is_dir():
        _missing("nextjs", "deploy/nextjs has no node_modules of this version: run `npm ci` there")
    return folder


@pytest.fixture(scope="session")
def example() -> Callable[[str], Path]:
    """Return a folder of deploy/examples, with node on the machine and its packages installed."""

    def find(name: str) -> Path:
        folder = ROOT / "deploy" / "examples" / name
        if shutil.which("node") is None:
            _missing("examples", "node is not on this machine")
        if not (folder / "node_modules").is_dir():
            _missing("examples", f"deploy/examples/{name} has no node_modules: run `npm ci` there")
        return folder

    return find


@pytest.fixture(scope="session")
def image() -> Path:
    """Folder with the result of the Dockerfile's steps; its `opt/projector` is the content of the image."""
    folder = ROOT / "build" / "image"
    installed = next(folder.glob("opt/projector/lib/*/site-packages"), folder)
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    if not all(_is_same(path, installed / path.relative_to(ROOT)) for path in sources):
        _missing("image", "build/image is not made of this work tree: run `make wheel`")
    return folder


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
