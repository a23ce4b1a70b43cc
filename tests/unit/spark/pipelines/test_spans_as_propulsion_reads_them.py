"""Spans and summaries that pipelines write, read as Propulsion documents it.

A record's key is its stream. A span `{"s", "i", "e"}` has events with the indices i, i + 1 …; a summary
`{"s", "i", "u"}` has what stands for a stream at index i. Each item has a type `c`, a time `t`, a body `d`, and maybe
`m`. Of each stream a consumer keeps the index that it wants next: what is below is a repeat, gaps are tolerated.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.spark.pipelines.spans import Record, SpanEvent, Spans
from tests.exhaustive import examples

SPANS = Spans("stream-span", frozenset(["order"]))
SUMMARIES = Spans("summary", frozenset(["order"]))
KEYS = 5


class Consumer:
    """Handles events by stream, as Propulsion's consumers do."""

    def __init__(self) -> None:
        self.wanted: defaultdict[str, int] = defaultdict(int)
        self.handled: defaultdict[str, list[int]] = defaultdict(list)

    def take(self, record: Record) -> None:
        found = json.loads(record.value)
        member = "e" if "e" in found else "u"
        assert found.keys() == {"s", "i", member}
        assert record.key == found["s"]
        items = found[member]
        assert items
        for place, each in enumerate(items):
            assert {"c", "t", "d"} <= each.keys() <= {"c", "t", "d", "m"}
            assert datetime.fromisoformat(each["t"]).utcoffset() is not None
            index = found["i"] + (place if member == "e" else 0)
            if index >= self.wanted[found["s"]]:
                self.handled[found["s"]].append(each["d"]["n"])
                self.wanted[found["s"]] = index + 1


def log(count: int, seed: int = 0) -> list[SpanEvent]:
    """Return the events of a partition, whose keys come in any order."""
    chance = random.Random(seed)
    time = datetime(2026, 11, 20, 10, tzinfo=UTC)
    return [
        SpanEvent("order", 0, n, str(chance.randrange(KEYS)), {}, f'{{"n": {n}}}', time, "Placed") for n in range(count)
    ]


def by_stream(items: Iterable[SpanEvent]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for item in items:
        found[f"order-{item.key}"].append(item.offset)
    return dict(found)


def test_span_holds_all_events_of_a_stream_in_a_batch_and_each_is_handled_once() -> None:
    items, consumer, records = log(3_000), Consumer(), list[Record]()
    for at in range(0, 3_000, 500):
        records += SPANS.spans(items[at : at + 500])
    for record in [*records, *records]:
        consumer.take(record)
    assert consumer.handled == by_stream(items)
    assert len(records) == 6 * KEYS, "a record for each stream in each batch"
    assert all(index <= 3_000 for index in consumer.wanted.values())


@pytest.mark.parametrize("seed", range(examples(20, 500)))
def test_events_sent_again_in_other_spans_lose_none_and_keep_their_order(seed: int) -> None:
    items, consumer, chance, at = log(200, seed), Consumer(), random.Random(seed), 0
    while at < len(items):
        again, end = max(0, at - chance.randrange(40)), min(len(items), at + chance.randrange(1, 40))
        batch: Sequence[SpanEvent] = items[again:end]
        for record in SPANS.spans(batch):
            consumer.take(record)
        at = end
    first_times: dict[str, list[Any]] = {name: list(dict.fromkeys(found)) for name, found in consumer.handled.items()}
    assert first_times == by_stream(items)


def test_summary_stands_for_all_that_came_before_it() -> None:
    items, consumer = log(300), Consumer()
    for at in range(0, 300, 100):
        for record in SUMMARIES.summaries(items[at : at + 100]):
            consumer.take(record)
    streams = by_stream(items)
    assert {name: found[-1] for name, found in consumer.handled.items()} == {n: f[-1] for n, f in streams.items()}
    assert all(len(found) <= 3 and found == sorted(found) for found in consumer.handled.values())
