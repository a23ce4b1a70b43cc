from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.processing.outcomes import Failure, Outcome, done, retry, skip_to
from penstock.processing.stats import Stats
from penstock.spark.processors.calling import CallAll
from penstock.spark.processors.reading import EVENTS, ProcessingPlan
from penstock.spark.processors.results import RESULTS, results_of

LAST = 2**63 - 1

STATS = Stats()
STATS.count("größe", 2**64)
STATS.observe("eur", 0, 17.5, 1e12)
STATS.set("queue", -1.5)


def call_all(returned: Any) -> dict[str, Outcome | Failure]:
    """Return what the driver is told of two streams, for one of which the handler returns something."""

    def handle(stream: str, events: Sequence[Any]) -> Any:
        return returned if stream == "a" else None

    rows = [{"stream": stream, "place": 0, "again": False, "offset": at} for at, stream in enumerate("aab")]
    batches = pa.Table.from_pylist(rows, EVENTS).to_batches()
    made = CallAll(ProcessingPlan(("0",), ("0",)), handle, None)(batches)
    return {each.stream: each.outcome for each in results_of(pa.Table.from_batches(made, RESULTS))}


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        (skip_to(LAST), Outcome(LAST)),
        (done(n=2**64), Outcome(2, counts={"n": 2**64})),
        (done(**{"\ud800": 1, "\0": 2}), Outcome(2, counts={"\ud800": 1, "\0": 2})),
        (retry(2**53 + 1), Outcome(-1, after_seconds=2.0**53)),
        (done(stats=STATS), Outcome(2, stats=STATS)),
        (done(stats=STATS, n=1), Outcome(2, counts={"n": 1}, stats=STATS)),
    ],
    ids=["the last index", "a large count", "counts of any name", "an age", "statistics", "counts and statistics"],
)
def test_extreme_outcomes_of_a_handler_reach_the_driver_unchanged(returned: Outcome, outcome: Outcome) -> None:
    assert call_all(returned) == {"a": outcome, "b": Outcome(3)}


@pytest.mark.parametrize(
    ("returned", "tag"),
    [
        (Outcome(1.5), "TypeError"),  # type: ignore[arg-type]
        (Outcome(2**63, skips=True), "BadOutcome"),
        (Outcome(after_seconds="soon"), "ValueError"),  # type: ignore[arg-type]
        (Outcome(tag="\ud800"), "UnicodeEncodeError"),
        (Outcome(tag=b"late"), "AttributeError"),  # type: ignore[arg-type]
        (Outcome(counts={"n": object()}), "TypeError"),  # type: ignore[dict-item]
    ],
    ids=["an index", "an index beyond all", "a time", "a tag that is no text", "a tag of bytes", "a count"],
)
def test_outcome_that_cannot_be_sent_fails_only_its_stream(returned: Outcome, tag: str) -> None:
    found = call_all(returned)

    assert isinstance(found["a"], Failure)
    assert (found["a"].tag, found["b"]) == (tag, Outcome(3))
