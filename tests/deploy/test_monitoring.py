"""deploy/grafana.json and deploy/alerts.yaml against the server: metrics, labels, codes, reasons and thresholds."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Final, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another package

from projector.core.faults import FAULTS
from projector.server.http import connection
from projector.server.http.problems import PROBLEMS
from projector.server.telemetry.metrics import METRICS
from projector.server.telemetry.stream_stats import REASONS, code_label
from tests.deploy.image import ROOT
from tests.exposed_metrics import exposed_labels

DASHBOARD: Final = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
(GROUP,) = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
RULES: Final[dict[str, dict[str, Any]]] = {rule["alert"]: rule for rule in GROUP["rules"]}
PANELS: Final[dict[str, dict[str, Any]]] = {
    panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"
}
TARGET: Final = {"job", "instance"}
"""Labels that Prometheus adds to each sample of a server."""
EXPOSED: Final = {name: labels | TARGET for name, labels in exposed_labels().items()} | {"up": TARGET}

_GROUPING: Final = re.compile(r"\bby \(([^)]*)\)")
_MATCHER: Final = re.compile(r'(\w+)(=~|=)"([^"]*)"')
_OPERATOR: Final = re.compile(r"\b(?:or|unless|offset \w+)\b(?!\s*\{)")
_SELECTOR: Final = re.compile(r"([a-z_]\w*)(?:\{([^}]*)\})?(?!\w)(?!\s*\()")


class Query(NamedTuple):
    """What a PromQL expression refers to."""

    metrics: dict[str, set[str]]
    """Each metric, with the labels that its selectors match."""
    values: dict[str, set[str]]
    """Each label that is matched, with the values."""
    by: set[str]
    """Labels of the result, if it is an aggregation."""
    is_aggregated: bool


def query(expression: str) -> Query:
    """Return what an expression refers to. It knows the part of PromQL that these files use."""
    by = {name.strip() for names in _GROUPING.findall(expression) for name in names.split(",")}
    values: dict[str, set[str]] = {}
    for name, operator, value in _MATCHER.findall(expression):
        values.setdefault(name, set()).update(value.split("|") if operator == "=~" else [value])
    plain = re.sub(r"\[[^\]]*\]", "", _OPERATOR.sub("", _GROUPING.sub("", expression)))
    metrics: dict[str, set[str]] = {}
    for name, matchers in _SELECTOR.findall(plain):
        metrics.setdefault(name, set()).update(label for label, _, _ in _MATCHER.findall(matchers))
    return Query(metrics, values, by - {"le"}, re.search(r"\bsum\b", expression) is not None)


EXPRESSIONS: Final = {
    **{f"alert {name}": rule["expr"] for name, rule in RULES.items()},
    **{
        f"panel {title} {target['refId']}": target["expr"]
        for title, panel in PANELS.items()
        for target in panel["targets"]
    },
    **{
        f"variable {variable['name']}": re.sub(
            r"label_values\((.*), (\w+)\)", r"sum by (\2) (\1)", variable["query"], count=1
        )
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    },
}


def test_the_reader_of_expressions() -> None:
    found = query('histogram_quantile(0.9, sum by (le, b) (rate(a_bucket{c="d", e=~"f|g"}[5m]))) > 0.5 * h_total')
    more = query('sum((m{c="d"} unless m offset 10m) or increase(m{c="d"}[10m])) > 0')
    assert more == Query({"m": {"c"}}, {"c": {"d"}}, set(), True)
    assert found == Query({"a_bucket": {"c", "e"}, "h_total": set()}, {"c": {"d"}, "e": {"f", "g"}}, {"b"}, True)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_and_label_is_exposed(name: str) -> None:
    found = query(EXPRESSIONS[name])
    assert found.metrics
    assert found.metrics.keys() <= EXPOSED.keys()
    for metric, labels in found.metrics.items():
        assert labels | found.by <= EXPOSED[metric], metric


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_value_is_known(name: str) -> None:
    values = query(EXPRESSIONS[name]).values
    assert values.keys() <= {*TARGET, "upstream", "agent", "code", "reason"}
    for code in values.get("code", ()):
        assert code in {*PROBLEMS, *FAULTS} or code.startswith("upstream_http_")
        assert code_label(code) == code
    assert values.get("reason", set()) <= REASONS | connection.REASONS | {"stalled"}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_balanced(name: str) -> None:
    open_ = []
    for bracket in re.sub(r'"[^"]*"', "", re.sub(r"\$__rate_interval", "5m", EXPRESSIONS[name])):
        if bracket in "([{":
            open_.append(bracket)
        elif bracket in ")]}":
            assert open_.pop() + bracket in {"()", "[]", "{}"}
    assert not open_


@pytest.mark.parametrize("name", RULES)
def test_an_alert_names_labels_of_its_result(name: str) -> None:
    rule, found = RULES[name], query(RULES[name]["expr"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    of_all = set.intersection(*(EXPOSED[metric] for metric in found.metrics))
    assert used <= (found.by if found.is_aggregated else of_all)
    assert re.fullmatch(r"\d+m", rule.get("for", "1m"))


def test_alerts_have_names_of_their_own() -> None:
    assert len(RULES) == len(GROUP["rules"])
    assert all(name.startswith("Projector") for name in RULES)
    assert {rule["severity"] for rule in (one["labels"] for one in RULES.values())} == {"critical", "warning"}


@pytest.mark.parametrize("title", PANELS)
def test_a_legend_names_labels_of_its_result(title: str) -> None:
    panel = PANELS[title]
    assert panel["description"]
    for target in panel["targets"]:
        found = query(target["expr"])
        used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        of_all = set.intersection(*(EXPOSED[metric] for metric in found.metrics))
        assert used == found.by if found.is_aggregated else used <= of_all


def test_every_metric_of_the_server_has_a_value() -> None:
    """One without a value is not exposed, so the other tests would pass it over."""
    families = {re.sub("_(bucket|sum|count|created)$", "", name) for name in EXPOSED}
    assert [row.exposed for row in METRICS if row.exposed not in families] == [], "tests/exposed_metrics.py"


def test_every_metric_of_the_server_is_shown_or_alerted_on() -> None:
    used = {metric for expression in EXPRESSIONS.values() for metric in query(expression).metrics}
    families = {re.sub("_(bucket|sum|count|created)$", "", name) for name in used}
    known = {re.sub("_(bucket|sum|count|created)$", "", name) for name in EXPOSED if name.startswith("projector_")}
    assert {name for name in known if f"{name}_total" not in known} <= families


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in itertools.combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_variables_of_expressions_are_defined() -> None:
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__rate_interval"} == defined
