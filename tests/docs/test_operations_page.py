"""docs/operations.md against the code: its tables have exactly the rows that the code has."""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

import pytest
from starlette.routing import Route

from projector.cli import commands
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.core.faults import FAULTS, Fault
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.providers.openai_chat import request as chat_request
from projector.providers.openai_responses import request as responses_request
from projector.redaction.policy import Policy
from projector.redaction.rules import shipped
from projector.server.app import create_app
from projector.server.config.setting_names import fields, variable
from projector.server.config.settings import Settings
from projector.server.http import internal_routes, requests
from projector.server.http.problems import PROBLEMS, problem_of_fault
from projector.server.process import CLOSE_S
from projector.server.streaming.registry import LAST_WORDS_S
from projector.server.telemetry.reports import HOOK_S
from projector.server.upstream.demo import DemoUpstream
from projector.server.upstream.targets import REMEDIES
from tests.exposed_metrics import exposed_labels, idle_metrics

ROOT: Final = Path(__file__).parents[2]
SHELL: Final = ROOT / "projector" / "server"
SOURCES: Final = sorted([*SHELL.rglob("*.py"), *(ROOT / "projector" / "openwop").rglob("*.py")])
PROVIDERS: Final = sorted((ROOT / "projector" / "providers").rglob("*.py"))
PAGE: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
ALL_FAULTS: Final[Mapping[str, Fault]] = {**FAULTS, **RUN_FAULTS}
LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def _tables() -> dict[str, dict[str, list[str]]]:
    """Return the tables of the page by their first heading, and the lists by theirs, with the cells of each name."""
    tables: dict[str, dict[str, list[str]]] = {}
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines())
        tables[head[0]] = {name.strip("`"): cells for name, *cells in rows}
    for name, heading in LISTS.items():
        section = re.split(r"\n##+ ", PAGE.partition(f"\n{heading}\n")[2])[0]
        tables[name] = {
            one: [*([value] if name in WITH_VALUE else []), text]
            for names, value, text in re.findall(
                r"^- ((?:`[^`]+`(?:, )?)+)(?: \((.*?)\))?: (.*)$", section, re.MULTILINE
            )
            for one in re.findall(r"`([^`]+)`", names)
        }
    return tables


LISTS: Final = {
    "route": "## Run it",
    "variable": "## Settings",
    "code": "## Errors",
    "event": "### The log",
    "metric": "### Metrics",
}
"""What a list names -> its heading."""
WITH_VALUE: Final = frozenset({"variable", "code", "metric"})
"""Lists with a value in parentheses after the names: a default, a status, labels."""


TABLES: Final = _tables()


def test_the_tables_of_the_page() -> None:
    named = {"route", "variable", "code", "event", "failure", "metric"}
    assert TABLES.keys() == named


def test_every_member_of_a_policy_has_its_row_and_no_other() -> None:
    page = (ROOT / "docs" / "withheld.md").read_text(encoding="utf-8")
    section = page.partition("### The whole policy")[2].partition("\n## ")[0]
    rows = re.findall(r"^- ((?:`\w+`(?:, )?)+) \((.*?)\): ", section, re.MULTILINE)
    shown = [(name, default) for names, defaults in rows for name, default in pairs(names, defaults)]
    fields = {name: field.default for name, field in Policy.model_fields.items()}
    assert sorted(name for name, _ in shown) == sorted(fields)
    for name, default in shown:
        if name != "limits":
            value = tomllib.loads(f"value = {default.strip('`')}")["value"]
            assert value == ([*fields[name]] if isinstance(fields[name], tuple | frozenset) else fields[name])


def test_every_class_of_text_has_its_line() -> None:
    section = (ROOT / "docs" / "withheld.md").read_text(encoding="utf-8").partition("\n## Classes\n")[2]
    listed = re.findall(r"^- `(\w+)`(?: in fenced code)?: ", section.partition("\n## ")[0], re.MULTILINE)
    assert {*listed} == {"credentials", *(one.name for one in shipped().classes)}, "docs/withheld.md, Classes"


def pairs(names: str, defaults: str) -> list[tuple[str, str]]:
    members = [name.strip("`") for name in names.split(", ")]
    return [*zip(members, defaults.split(", "), strict=True)]


# how it is run


def test_every_route_has_its_row_and_no_other() -> None:
    rows = {tuple(name.split(" ")) for name in TABLES["route"]}
    app = create_app(Settings(), lambda *_: Both())
    routes = [route for route in app.routes if isinstance(route, Route)]
    assert {(method, route.path_format) for route in routes for method in (route.methods or set()) - {"HEAD"}} <= rows
    source = "".join(path.read_text(encoding="utf-8") for path in [*SOURCES, *PROVIDERS, internal_routes._FILE])
    assert [path for _, path in rows if f'"{path}"' not in source] == []


def test_every_item_of_a_conversation_is_listed() -> None:
    kinds = [kind for kind in vars(requests).values() if "type" in getattr(kind, "model_fields", {})]
    parts = {requests.InputText, requests.InputImage, requests.OutputText, requests.Refusal}
    section = PAGE.partition("\n### Conversations\n")[2].partition("\n### ")[0]
    items = re.findall(r"^- `(\w+)`(?: of role `\w+`)?: (.*)$", section, re.MULTILINE)
    listed: dict[str, set[str]] = {}
    for name, members in items:
        listed.setdefault(name, set()).update(re.findall(r"`(\w+)`", members))
    sent: dict[str, set[str]] = {}
    for kind in set(kinds) - parts:
        members = {name for name, one in kind.model_fields.items() if not one.exclude}
        sent.setdefault(get_args(kind.model_fields["type"].annotation)[0], set()).update(members - {"type", "role"})
    assert {name: members & sent[name] for name, members in listed.items()} == sent
    assert sum(name == "message" for name, _ in items) == 2


class Both(DemoUpstream):
    """An upstream for every route."""

    providers = frozenset({"openai_responses", "openai_chat"})


def test_every_member_of_a_translated_request_is_listed() -> None:
    section = PAGE.partition("### Upstreams with the other API")[2].partition("\n### ")[0]
    paths = {
        member.path for members in (chat_request.MEMBERS, responses_request.MEMBERS) for member in members.values()
    }
    assert {path for path in paths if f"`{path}`" not in section} == set()


def test_every_flag_of_serve_is_listed() -> None:
    (found,) = (one for one in commands.build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    flags = {flag for action in found.choices["serve"]._actions for flag in action.option_strings} - {"-h", "--help"}
    assert flags == set(re.findall(r"`(--[a-z-]+)[ `]", PAGE.partition("\n## Configuration")[0]))


def test_its_numbers_are_correct() -> None:
    assert (LAST_WORDS_S, HOOK_S, EVENT_MAX_BYTES) == (5, 10, 32 * 2**20)
    assert "up to five further seconds" in PAGE
    assert "took longer than ten seconds" in TABLES["event"]["hook_failed"][0]
    assert "one event over 32 MiB" in TABLES["code"]["upstream_event_too_large"][1]
    assert "`PROJECTOR_DRAIN_TIMEOUT_S` and ten seconds" in PAGE
    assert LAST_WORDS_S + CLOSE_S <= 10


# codes


def test_every_code_has_its_row_and_no_other() -> None:
    assert TABLES["code"].keys() == {*PROBLEMS, *ALL_FAULTS, "upstream_http_<status>"}


def test_every_problem_has_its_status() -> None:
    for code, row in PROBLEMS.items():
        assert TABLES["code"][code][0] == str(row.status.value)


def test_every_remedy_is_listed() -> None:
    listed: dict[str, tuple[bool, bool]] = {}
    for name, (over, again) in ((row, cells[:2]) for row, cells in TABLES["failure"].items()):
        codes = [code for words, codes in FAILURES.items() if words in name for code in codes]
        codes += [f"upstream_http_{status}" for status in re.findall(r"\b[1-5]\d\d\b", name)]
        assert codes, name
        listed |= dict.fromkeys(codes, (over == "yes", again == "yes"))
    remedies = {code: REMEDIES[code] for code in listed}
    assert listed == {code: (remedy.fails_over, remedy.repeats) for code, remedy in remedies.items()}
    assert {code for code in REMEDIES if not re.fullmatch("upstream_http_5..", code)} <= listed.keys()


FAILURES: Final[Mapping[str, Sequence[str]]] = {
    "no connection": ["upstream_unreachable", "upstream_timeout_connect"],
    "connection broken": ["upstream_reset"],
    "not HTTP": ["upstream_malformed"],
    "5xx": ["upstream_http_500", "upstream_http_503", "upstream_http_599"],
    "3xx or 4xx": ["upstream_http_307", "upstream_http_400", "upstream_http_422"],
    "FIRST_BYTE_S": ["upstream_timeout_first_byte"],
    "TOTAL_S": ["upstream_timeout_total"],
}
"""Words of a row of the table of failures -> codes of faults."""


def test_every_fault_has_its_status() -> None:
    """A fault that occurs only after the response has started has no status."""
    for code, fault in ALL_FAULTS.items():
        assert TABLES["code"][code][0] in {"", str(problem_of_fault(fault).status.value)}


# settings


def test_every_setting_has_its_row_and_no_other() -> None:
    assert TABLES["variable"].keys() == {variable(path) for path, _ in fields()}


# log and metrics


CRASH_FIELDS: Final = {"error_type", "place"}
"""Fields that `log_crash` adds."""
JOINED_FIELDS: Final = {"reason", "count"}
"""Fields of `JoinedLines`."""


def _logged() -> Iterator[tuple[str, set[str]]]:
    """Yield the event and the field names of each log call of the server."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "JoinedLines":
                yield str(ast.literal_eval(node.args[0])), JOINED_FIELDS
                continue
            if called != "log_crash" and called not in {f"log.{level}" for level in {*LEVELS, "log"}}:
                continue
            name = node.args[called == "log.log"]
            if ast.unparse(name) in {"event", "self._event"}:  # within `log_crash` and `JoinedLines`
                continue
            assert isinstance(name, ast.Constant)
            extra = CRASH_FIELDS if called == "log_crash" else set()
            yield str(name.value), extra | {keyword.arg for keyword in node.keywords if keyword.arg}


LOGGED: Final = list(_logged())


def test_every_log_event_has_its_row_and_no_other() -> None:
    assert TABLES["event"].keys() == {event for event, _ in LOGGED} | {"library"}


@pytest.mark.parametrize(("event", "names"), LOGGED)
def test_every_field_of_a_log_event_is_listed(event: str, names: set[str]) -> None:
    assert names <= set(re.findall(r"`(\w+)`", TABLES["event"][event][0]))


@pytest.mark.parametrize(
    ("event", "module", "function"), [("stream_end", "stream_stats", "line_of"), ("request", "reports", "_log")]
)
def test_every_field_of_a_report_is_listed(event: str, module: str, function: str) -> None:
    source = (SHELL / "telemetry" / f"{module}.py").read_text(encoding="utf-8").partition(f"\ndef {function}(")[2]
    names = set(re.findall(r'^        "(\w+)": ', source.partition("\n\n\n")[0], re.MULTILINE))
    assert len(names) > 5
    assert names == set(re.findall(r"`(\w+)`", TABLES["event"][event][0]))


def test_every_metric_has_its_row_and_no_other() -> None:
    text = idle_metrics().text().decode()
    named = {name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if not name.endswith("_created")}
    assert TABLES["metric"].keys() == named


def test_every_label_is_listed() -> None:
    for name, labels in exposed_labels().items():
        family = re.sub("_(bucket|sum|count|created)$", "", name)
        row = TABLES["metric"].get(name) or TABLES["metric"].get(family) or TABLES["metric"][f"{family}_total"]
        assert labels - {"le"} <= set(re.findall(r"`(\w+)`", row[0])), name


def test_every_opentelemetry_metric_is_listed() -> None:
    names = re.findall(r"\"(gen_ai\.client[a-z._]+)\"", (SHELL / "telemetry" / "spans.py").read_text(encoding="utf-8"))
    assert set(names) == set(re.findall(r"`(gen_ai\.client[a-z._]+)`", PAGE))
