"""The alert rules: each uses existing metrics, and is quiet below its threshold and raised above it."""

import operator
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from penstock.processing.metrics import ProcessorMetrics, alert_rules
from penstock.processing.outcomes import Failure, Outcome, retry
from tests.unit.processing.engine.items import Thing, batch, engine, things
from tests.unit.processing.watched import Watched

COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {">": operator.gt, "==": operator.eq}
EXPRESSION: Final = re.compile(r"(\w+)(?:\{(.*)\})? (>|==) (\d+)")
RULES: Final = [rule for group in yaml.safe_load(alert_rules())["groups"] for rule in group["rules"]]
PROMTOOL: Final = Path(__file__).parents[2] / "build" / "promtool" / "promtool"
"""As `scripts/setup-promtool` has brought it."""
SERIES: Final = Path(__file__).with_name("alert_series.yml")
NOW: Final = time.time()
BROKEN: Final = Failure("ValueError", "broken")


class Asked(NamedTuple):
    """The parts of an expression."""

    metric: str
    labels: dict[str, str]
    compares: Callable[[float, float], bool]
    threshold: float


def parse(rule: Mapping[str, Any]) -> Asked:
    found = EXPRESSION.fullmatch(rule["expr"])
    assert found, f"this test has to learn to read {rule['expr']!r}"
    metric, labels, compares, threshold = found.groups()
    return Asked(metric, dict(re.findall(r'(\w+)="(\w+)"', labels or "")), COMPARES[compares], float(threshold))


class Received(Thing):
    """An event that the hub has received just now."""

    received = int(NOW * 1_000_000)


def alarms(watched: Watched) -> set[str]:
    """Return the alerts whose expression holds, whatever their `for` is."""
    metrics: list[Metric] = [*ProcessorMetrics(watched).collect()]
    samples = [sample for metric in metrics for sample in metric.samples]
    found = set()
    for rule in RULES:
        metric, labels, compares, threshold = parse(rule)
        if any(
            each.name == metric and labels.items() <= each.labels.items() and compares(each.value, threshold)
            for each in samples
        ):
            found.add(rule["alert"])
    return found


def running(result: Outcome | Failure | None, age: float) -> Watched:
    """Return a processor with one stream that has been active, failing or stalled for so many seconds."""
    watched = Watched("mailer", engine(), now=age)
    watched.tally.begin_round(age)
    read = batch(1, [Received("A0", 0)])
    watched.engine.ingest(read, 0.0)
    watched.tally.note_batch(read)
    [call] = watched.engine.take(1, 0.0)
    if result is not None:
        watched.engine.settle(call, result, 0.0, 0.0)
    return watched


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.metrics.time.time", lambda: NOW)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_rule_uses_an_existing_metric_and_labels(rule: dict[str, Any]) -> None:
    metric, labels, _, _ = parse(rule)
    samples = [sample for each in ProcessorMetrics(running(BROKEN, 0.0)).collect() for sample in each.samples]

    asked = {"group": "mailer", **labels}.items()
    [found] = [sample for sample in samples if sample.name == metric and asked <= sample.labels.items()]
    assert {*re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])} <= found.labels.keys()
    assert rule["labels"]["severity"] in ("warn", "page")
    assert "{{ $labels.group }}" in rule["annotations"]["summary"], "whoever is woken is told whose alarm it is"


@pytest.mark.parametrize(
    ("result", "state", "warn", "page"),
    [
        (None, "active", "PenstockHandlerSlow", "PenstockHandlerHangs"),
        (BROKEN, "failing", "PenstockStreamFailing", "PenstockStreamFailingLong"),
        (retry(1), "stalled", "PenstockStreamStalled", "PenstockStreamStalledLong"),
    ],
    ids=["active", "failing", "stalled"],
)
def test_age_of_the_oldest_stream_in_a_state_warns_and_then_pages(
    result: Outcome | Failure | None, state: str, warn: str, page: str
) -> None:
    thresholds = {each["alert"]: parse(each).threshold for each in RULES if parse(each).labels.get("state") == state}
    severities = {each["alert"]: each["labels"]["severity"] for each in RULES}
    assert {*thresholds} == {warn, page}
    assert (severities[warn], severities[page]) == ("warn", "page")
    assert thresholds[warn] < thresholds[page]

    assert alarms(running(result, thresholds[warn] - 5)) == set()
    assert alarms(running(result, thresholds[warn] + 5)) == {warn}
    assert alarms(running(result, thresholds[page] - 5)) == {warn}
    assert alarms(running(result, thresholds[page] + 5)) == {warn, page}


def test_long_round_on_spark_warns_and_then_pages() -> None:
    thresholds = {each["alert"]: parse(each).threshold for each in RULES if "round" in each["expr"]}
    warn, page = sorted(thresholds, key=lambda name: thresholds[name])
    found = []
    for age in (thresholds[warn] - 5, thresholds[warn] + 5, thresholds[page] + 5):
        watched = Watched("scores", engine(), now=age)
        watched.tally.begin_round(0.0)
        found.append(alarms(watched))
    watched.tally.end_round(watched.now)

    assert (warn, page) == ("PenstockRoundSlow", "PenstockRoundHangs")
    assert found == [set(), {warn}, {warn, page}]
    assert alarms(watched) == set()


def test_parked_stream_failing_commits_and_an_ended_processor_raise_alerts() -> None:
    watched = Watched("mailer", engine(attempts_max=1, exhausted="park"))
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    [call] = watched.engine.take(1, 0.0)
    assert alarms(watched) == set()
    watched.tally.fail_commit("it is away")
    assert alarms(watched) == {"PenstockCommitsFailing", "PenstockCommitsFailingLong"}
    watched.tally.end_commit()
    assert alarms(watched) == set()
    watched.engine.settle(call, BROKEN, 0.0, 0.0)
    assert alarms(watched) == {"PenstockStreamsParked"}

    assert alarms(Watched("mailer", engine(), is_running=False)) == {"PenstockProcessorEnded"}


def test_silent_source_raises_alerts_until_it_answers() -> None:
    watched, found = Watched("mailer", engine()), []
    watched.tally.source.begin(0.0)
    for watched.now in (55, 65, 605):
        found.append(alarms(watched))
    watched.tell_behind({"t": 0})

    assert found == [set(), {"PenstockSourceSilent"}, {"PenstockSourceSilent", "PenstockSourceSilentLong"}]
    assert alarms(watched) == set()


def test_tranche_with_an_old_event_that_is_not_done_raises_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, found = Watched("mailer", engine()), []
    read = batch(1, [Received("A0", 0)])
    watched.engine.ingest(read, 0.0)
    watched.tally.note_batch(read)
    for age in (800, 1_000, 3_700):
        monkeypatch.setattr("penstock.processing.metrics.time.time", lambda age=age: NOW + age)
        found.append(alarms(watched))

    assert found == [set(), {"PenstockProcessorLate"}, {"PenstockProcessorLate", "PenstockProcessorLateLong"}]


def test_hanging_loop_raises_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Watched("mailer", engine()).snapshot
    monkeypatch.setattr(Watched, "snapshot", hung)
    assert alarms(Watched("mailer", engine())) == set()
    monkeypatch.setattr("penstock.processing.snapshot.time.monotonic", lambda: hung.taken + 90)

    assert alarms(Watched("mailer", engine())) == {"PenstockProcessorHangs"}


class PromtoolMissing(Exception):
    """It is not in build/."""


def promtool(*arguments: object) -> str:
    """Return the output of promtool, which has to succeed."""
    if not PROMTOOL.exists():
        raise PromtoolMissing("promtool is not in build/promtool: run `make test-all`")
    done = subprocess.run([PROMTOOL, *map(str, arguments)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_promtool_accepts_the_rules_and_raises_the_alerts_of_the_series(tmp_path: Path) -> None:
    rules, series = tmp_path / "alerts.yml", tmp_path / SERIES.name
    rules.write_text(alert_rules(), encoding="utf-8")
    series.write_text(SERIES.read_text(encoding="utf-8"), encoding="utf-8")
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", rules)
    promtool("test", "rules", series)


def test_series_raise_every_alert_and_keep_it_quiet() -> None:
    tested = [each for test in yaml.safe_load(SERIES.read_text())["tests"] for each in test["alert_rule_test"]]
    assert {each["alertname"] for each in tested if each.get("exp_alerts")} == {rule["alert"] for rule in RULES}
    assert {each["alertname"] for each in tested if not each.get("exp_alerts")} == {rule["alert"] for rule in RULES}
