"""The hub's alert rules and its dashboard: they use existing metrics, and promtool raises each alert."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from penstock.processing import metrics as processors
from penstock.server.monitoring import alert_rules, dashboard
from tests.processing.test_alert_rules import promtool
from tests.server.all_metrics import collect_every_metric

RULES: Final = [rule for group in yaml.safe_load(alert_rules())["groups"] for rule in group["rules"]]
SERIES: Final = Path(__file__).with_name("alert_series.yml")
GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "watching-a-hub.md"
SCRAPED: Final = {"job", "instance"}
"""Labels that Prometheus adds."""
PROCESS: Final = {"process_resident_memory_bytes": set[str](), "process_cpu_seconds_total": set[str]()}
"""Metrics that Prometheus' library has for each process, where there is /proc."""
HISTOGRAMS: Final = re.compile(r"_(bucket|count|sum)$")


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """The labels of every metric that a hub or a processor can have."""
    return collect_every_metric() | collect_processors_metrics() | PROCESS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_rule_uses_existing_metrics_and_labels(rule: dict[str, Any], metrics: dict[str, set[str]]) -> None:
    check_expression(rule["expr"], metrics)
    assert rule["labels"]["severity"] in ("warn", "page")
    assert rule["annotations"]["summary"]


def test_summary_of_a_rule_tells_labels_that_its_alert_has(metrics: dict[str, set[str]]) -> None:
    for rule in RULES:
        known = SCRAPED.union(*(labels_of(name, metrics) for name in names_in(rule["expr"], metrics)))
        if "without (instance" in rule["expr"]:
            known -= {"instance"}
        assert {*re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])} <= known, rule["alert"]


def test_series_raise_every_alert_and_keep_it_quiet() -> None:
    tested = [each for test in yaml.safe_load(SERIES.read_text())["tests"] for each in test["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {each["alertname"] for each in tested if each.get("exp_alerts")} == names
    assert {each["alertname"] for each in tested if not each.get("exp_alerts")} == names


@pytest.mark.exhaustive
def test_promtool_accepts_the_rules_and_raises_the_alerts_of_the_series(tmp_path: Path) -> None:
    rules, series, both = (tmp_path / name for name in ("alerts.yml", SERIES.name, "both.yml"))
    rules.write_text(alert_rules(), encoding="utf-8")
    series.write_text(SERIES.read_text(encoding="utf-8"), encoding="utf-8")
    both.write_text(alert_rules(processors=True), encoding="utf-8")
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", rules)
    promtool("check", "rules", both)
    promtool("test", "rules", series)


def test_rules_of_hubs_and_of_processors_are_one_file_with_different_names() -> None:
    groups = yaml.safe_load(alert_rules(processors=True))["groups"]
    own = [rule["alert"] for group in yaml.safe_load(processors.alert_rules())["groups"] for rule in group["rules"]]
    names = [rule["alert"] for group in groups for rule in group["rules"]]
    assert names == [rule["alert"] for rule in RULES] + own
    assert len({*names}) == len(names)
    assert len({group["name"] for group in groups}) == len(groups)


def test_dashboard_asks_for_existing_metrics_and_labels(metrics: dict[str, set[str]]) -> None:
    panels = list(panels_of(json.loads(dashboard())))
    for panel in panels:
        for target in panel["targets"]:
            check_expression(target["expr"].replace("$__rate_interval", "5m"), metrics)
            shown = {*re.findall(r"{{(\w+)}}", target["legendFormat"])}
            known = SCRAPED.union(*(labels_of(name, metrics) for name in names_in(target["expr"], metrics)))
            assert shown <= known, panel["title"]
    asked = {name for panel in panels for target in panel["targets"] for name in names_in(target["expr"], metrics)}
    assert len(asked) > 30


def test_guide_names_existing_metrics_and_labels(metrics: dict[str, set[str]]) -> None:
    for code in re.findall(r"`([^`\n]*penstock_[a-z_]+[^`\n]*)`", GUIDE.read_text(encoding="utf-8")):
        check_expression(code, metrics)


def test_dashboard_has_a_data_source_to_choose_and_places_its_panels_beside_each_other() -> None:
    board = json.loads(dashboard())
    assert [each["name"] for each in board["templating"]["list"]] == ["datasource", "job"]
    places: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["type"] == "row" or panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        at = panel["gridPos"]
        own = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not own & places, panel["title"]
        assert all(x < 24 for x, _ in own)
        places |= own
    ids = [panel["id"] for panel in board["panels"]]
    assert len({*ids}) == len(ids)


@pytest.mark.exhaustive
def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = [
        target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")
        for panel in panels_of(json.loads(dashboard()))
        for target in panel["targets"]
    ]
    rules = tmp_path / "queries.yml"
    recorded = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(queries)]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}), encoding="utf-8")
    assert f"SUCCESS: {len(queries)} rules found" in promtool("check", "rules", rules)


def collect_processors_metrics() -> dict[str, set[str]]:
    """Return the labels of each metric of processors, by the name that it has in Prometheus."""
    tables = {"": processors._GAUGES, "_total": processors._COUNTERS}
    found = {name + end: {"group", *labels} for end, table in tables.items() for name, _, labels, _ in table}
    return found | {name: {"group", *labels} for name, _, labels, _ in processors._HISTOGRAMS}


def panels_of(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels that ask for something."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def names_in(expr: str, metrics: dict[str, set[str]]) -> list[str]:
    """Return the metrics that an expression asks for; each must exist."""
    found = re.findall(r"\b(?:penstock|process)_\w+", re.sub(r'"[^"]*"', '""', expr))
    assert found
    for name in found:
        assert HISTOGRAMS.sub("", name) in metrics or name in metrics, f"there is no {name}"
    return found


def labels_of(name: str, metrics: dict[str, set[str]]) -> set[str]:
    """Return the labels of a metric."""
    return metrics[name] if name in metrics else metrics[HISTOGRAMS.sub("", name)] | {"le"}


def check_expression(expr: str, metrics: dict[str, set[str]]) -> None:
    """Check that each selector of an expression names labels of its metric."""
    names_in(expr, metrics)
    for name, selector in re.findall(r"\b((?:penstock|process)_\w+){([^}]*)}", re.sub(r"{event_type}", "", expr)):
        asked = {*re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector)}
        assert asked <= labels_of(name, metrics) | SCRAPED, expr
