"""The rules that give the alarm: each asks for what is there, and is quiet and loud where it is to be."""

import operator
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from penstock.processing.engine.outcome import Failure, Outcome, retry
from penstock.processing.metrics import ProcessorMetrics, alert_rules
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched

COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {">": operator.gt, "==": operator.eq}
EXPRESSION: Final = re.compile(r"(\w+)(?:\{(.*)\})? (>|==) (\d+)")
RULES: Final = [rule for group in yaml.safe_load(alert_rules())["groups"] for rule in group["rules"]]
PROMTOOL: Final = Path(__file__).parents[2] / "build" / "promtool" / "promtool"
"""As `scripts/setup-promtool` has brought it."""
SERIES: Final = Path(__file__).with_name("alert_series.yml")
BROKEN: Final = Failure("ValueError", "broken")


class Asked(NamedTuple):
    """What an expression asks for, taken apart."""

    metric: str
    labels: dict[str, str]
    compares: Callable[[float, float], bool]
    threshold: float


def asked(rule: Mapping[str, Any]) -> Asked:
    found = EXPRESSION.fullmatch(rule["expr"])
    assert found, f"this test has to learn to read {rule['expr']!r}"
    metric, labels, compares, threshold = found.groups()
    return Asked(metric, dict(re.findall(r'(\w+)="(\w+)"', labels or "")), COMPARES[compares], float(threshold))


def alarms(watched: Watched) -> set[str]:
    """Return which rules give the alarm, of those of which some let a while pass first: would, after that."""
    metrics: list[Metric] = [*ProcessorMetrics(watched).collect()]
    samples = [sample for metric in metrics for sample in metric.samples]
    found = set()
    for rule in RULES:
        metric, labels, compares, threshold = asked(rule)
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
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    [call] = watched.engine.take(1, 0.0)
    if result is not None:
        watched.engine.settle(call, result, 0.0, 0.0)
    return watched


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_rule_asks_for_a_metric_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    metric, labels, _, _ = asked(rule)
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(running(BROKEN, 0.0)))

    assert registry.get_sample_value(metric, {"group": "mailer", **labels}) is not None
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
def test_the_oldest_of_each_state_has_two_thresholds(
    result: Outcome | Failure | None, state: str, warn: str, page: str
) -> None:
    thresholds = {each["alert"]: asked(each).threshold for each in RULES if asked(each).labels.get("state") == state}
    severities = {each["alert"]: each["labels"]["severity"] for each in RULES}
    assert {*thresholds} == {warn, page}
    assert (severities[warn], severities[page]) == ("warn", "page")
    assert thresholds[warn] < thresholds[page]

    assert alarms(running(result, thresholds[warn] - 5)) == set()
    assert alarms(running(result, thresholds[warn] + 5)) == {warn}
    assert alarms(running(result, thresholds[page] - 5)) == {warn}
    assert alarms(running(result, thresholds[page] + 5)) == {warn, page}


def test_what_is_parked_gives_the_alarm() -> None:
    watched = Watched("mailer", engine(attempts_max=1, exhausted="park"))
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    [call] = watched.engine.take(1, 0.0)
    assert alarms(watched) == set()
    watched.engine.settle(call, BROKEN, 0.0, 0.0)

    assert alarms(watched) == {"PenstockStreamsParked"}


def test_a_round_on_spark_that_goes_on_and_on_gives_the_alarm() -> None:
    thresholds = {each["alert"]: asked(each).threshold for each in RULES if "round" in each["expr"]}
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


def test_a_source_that_is_silent_gives_the_alarm_until_it_answers() -> None:
    watched, found = Watched("mailer", engine()), []
    watched.tally.source.begin(0.0)
    for watched.now in (55, 65, 605):
        found.append(alarms(watched))
    watched.tell_behind({"t": 0})

    assert found == [set(), {"PenstockSourceSilent"}, {"PenstockSourceSilent", "PenstockSourceSilentLong"}]
    assert alarms(watched) == set()


def test_commits_that_fail_give_the_alarm_until_one_succeeds() -> None:
    watched = Watched("mailer", engine())
    watched.tally.commit_failed("it is away")
    assert alarms(watched) == {"PenstockCommitsFailing", "PenstockCommitsFailingLong"}
    watched.tally.committed()
    assert alarms(watched) == set()


def test_a_processor_that_has_ended_gives_the_alarm() -> None:
    assert alarms(Watched("mailer", engine(), is_running=False)) == {"PenstockProcessorEnded"}


def test_a_loop_that_hangs_gives_the_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Watched("mailer", engine()).snapshot
    monkeypatch.setattr(Watched, "snapshot", hung)
    assert alarms(Watched("mailer", engine())) == set()
    monkeypatch.setattr("penstock.processing.snapshot.time.monotonic", lambda: hung.taken + 90)

    assert alarms(Watched("mailer", engine())) == {"PenstockProcessorHangs"}


class PromtoolMissing(Exception):
    """It is not in build/."""


def promtool(*arguments: object) -> str:
    """Return what promtool says that finds nothing wrong."""
    if not PROMTOOL.exists():
        raise PromtoolMissing("promtool is not in build/promtool: run `make test-all`")
    done = subprocess.run([PROMTOOL, *map(str, arguments)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_prometheus_reads_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yml"
    file.write_text(alert_rules(), encoding="utf-8")
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", file)


@pytest.mark.exhaustive
def test_prometheus_gives_the_alarm_when_it_is_to(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(alert_rules(), encoding="utf-8")
    file = tmp_path / SERIES.name
    file.write_text(SERIES.read_text(encoding="utf-8"), encoding="utf-8")
    promtool("test", "rules", file)


def test_the_series_have_every_rule_give_the_alarm() -> None:
    tested = [each for test in yaml.safe_load(SERIES.read_text())["tests"] for each in test["alert_rule_test"]]
    assert {each["alertname"] for each in tested if each.get("exp_alerts")} == {rule["alert"] for rule in RULES}
    assert {each["alertname"] for each in tested if not each.get("exp_alerts")} == {rule["alert"] for rule in RULES}
