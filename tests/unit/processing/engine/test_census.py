from dataclasses import dataclass

from penstock.processing.engine.census import STATES, census
from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import Failure, done
from tests.unit.processing.engine.items import batch, engine, things


def test_every_stream_is_counted_once_with_what_it_has() -> None:
    ours = engine(is_dense=True, require_all=True)
    ours.ingest(batch(1, things("A0E0", "B0E0", "B0E1", "C0E0", "D0E1", "G0E0")), 0.0)
    calls = {call.stream: call for call in ours.take(4, 0.0)}
    assert {*calls} == {"A0", "B0", "C0", "G0"}
    ours.settle(calls["A0"], done(), 1.0, 1.0)
    ours.settle(calls["B0"], Failure("ValueError", "broken"), 1.0, 1.0)
    ours.ingest(batch(2, things("C0E1", "C0E2", "F0E0")), 1.0)

    found = census(ours)

    assert {*found} == {*STATES}
    assert {state: tuple(each) for state, each in found.items()} == {
        "active": (2, 2),  # C0, G0
        "ready": (1, 3),  # F0; what lies behind C0's call
        "waiting": (1, 2),  # B0
        "gapped": (1, 1),  # D0
        "parked": (0, 0),
        "synced": (1, 0),  # A0
    }


def test_parked_streams_are_counted_with_what_comes_of_them() -> None:
    ours = engine(attempts_max=1, exhausted="park")
    ours.ingest(batch(1, things("A0E0", "A0E1")), 0.0)
    [call] = ours.take(1, 0.0)
    ours.settle(call, Failure("ValueError", "broken"), 0.0, 0.0)
    ours.ingest(batch(2, things("A0E2")), 0.0)

    assert census(ours)["parked"] == (1, 3)


@dataclass
class Span:
    """Several events that follow each other."""

    stream: str
    index: int
    next: int
    events: int


def test_of_spans_the_events_are_counted() -> None:
    ours = engine()
    spans = [Span("A", 0, 5, 3), Span("B", 5, 9, 4), Span("B", 9, 20, 2), Span("C", 20, 21, 1)]
    ours.ingest(Batch("t", 21, spans, size=10), 0.0)
    first, second = ours.take(2, 0.0)
    ours.settle(first, Failure("ValueError", "broken"), 0.0, 0.0)

    found = census(ours)
    assert second.stream == "B"
    assert {state: tuple(each) for state, each in found.items() if each.streams} == {
        "active": (1, 6),
        "ready": (1, 1),
        "waiting": (1, 3),
    }
