"""Filtered sources leave out events by stream, kind and event type."""

import logging
import pickle
import re
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.filtered import Filtered, Names, Selection
from penstock.processing.sources.iterable import IterableSource
from penstock.processing.sources.memory import MemorySource


def test_name_matches_as_a_whole_and_an_expression_any_part() -> None:
    names = Names("kinds", ["order.placed", "^paid", re.compile("refund")], ["paid.late"])

    wanted = ["order.placed", "paid", "paid.early", "no.refund.yet"]
    assert [
        each for each in [*wanted, "order_placed", "order.placed.x", "paid.late", ""] if names.allow(each)
    ] == wanted
    assert str(names) == r"kinds: ^order\.placed\Z, ^paid, refund, not ^paid\.late\Z"


def test_impossible_names_are_refused() -> None:
    with pytest.raises(BadParameter, match="except_kinds is '\\(a'; allowed: a name, or a regular expression"):
        Names("kinds", (), ["(a"])
    with pytest.raises(BadParameter, match="a list of names"):
        Names("kinds", "abc")


def test_selection_describes_itself() -> None:
    assert str(Selection()) == "streams: not $…"
    assert str(Selection(include_system=True)) == "all"
    chosen = Selection(event_types=["order"], except_kinds=["^draft"])
    assert str(chosen) == r"event_types: ^order\Z; kinds: all, not ^draft; streams: not $…"


def test_pickled_selection_allows_the_same_events() -> None:
    chosen = Selection(event_types=["order"], except_streams=["order-2"], kinds=["placed"])
    assert chosen.allows("order-1", "placed", "0")

    sent = pickle.loads(pickle.dumps(chosen))

    events = [("order-1", "placed"), ("order-2", "placed"), ("order-1", "paid"), ("bill-1", "placed"), ("$x", "placed")]
    assert [sent.allows(stream, kind, "0") for stream, kind in events] == [True, False, False, False, False]
    assert sent.allows("order.line-1", "placed", "order/3") is False
    assert bool(sent.kinds)


class Seen:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []

    def __call__(self, stream: str, events: Any) -> None:
        self.events += [(stream, event.kind, event.index) for event in events]


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for stream in ("order-1", "order-2", "invoice-1", "$system-1"):
        source.append(stream, [1], kind="placed")
        source.append(stream, [2], kind="paid")
    return source


def handled(source: MemorySource, **rules: Any) -> list[tuple[str, str, int]]:
    seen, checkpoints = Seen(), MemoryCheckpoints()
    InlineProcessor(seen, Filtered(source, **rules), checkpoints=checkpoints).drain()
    assert checkpoints.positions() == {"0": 8}, "the position passes what is left out"
    return sorted(seen.events)


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ({}, {"order-1", "order-2", "invoice-1"}),
        ({"include_system": True}, {"order-1", "order-2", "invoice-1", "$system-1"}),
        ({"event_types": ["order"]}, {"order-1", "order-2"}),
        ({"event_types": ["ord"]}, set()),
        ({"event_types": ["^ord"]}, {"order-1", "order-2"}),
        ({"except_event_types": ["order"]}, {"invoice-1"}),
        ({"streams": ["-1$"], "except_streams": ["invoice-1"]}, {"order-1"}),
        ({"event_types": ["order"], "except_streams": ["order-1"]}, {"order-2"}),
    ],
)
def test_streams_are_left_out_by_their_names(source: MemorySource, rules: dict[str, Any], wanted: set[str]) -> None:
    assert {stream for stream, _, _ in handled(source, **rules)} == wanted


def test_kinds_are_left_out(source: MemorySource) -> None:
    assert {(kind, index) for _, kind, index in handled(source, kinds=["paid"])} == {("paid", 1)}
    assert {(kind, index) for _, kind, index in handled(source, except_kinds=["paid"])} == {("placed", 0)}


def test_index_within_a_stream_is_unchanged_by_left_out_events(source: MemorySource) -> None:
    assert Filtered(source, kinds=["paid"]).is_by_stream
    assert not Filtered(IterableSource([]), kinds=["paid"]).is_by_stream


def test_missing_events_are_unknown_where_kinds_are_left_out(source: MemorySource) -> None:
    assert Filtered(source, streams=["order-1"]).is_dense
    with pytest.raises(BadParameter, match="require_all"):
        InlineProcessor(Seen(), Filtered(source, kinds=["paid"]), rules=Rules(require_all=True))


def test_other_members_are_those_of_the_source(source: MemorySource, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.processing"):
        filtered = Filtered(source, event_types=["order"], except_streams=["order-2"])
    assert r"event_types: ^order\Z; streams: all, not ^order\-2\Z; streams: not $…" in caplog.text
    assert (filtered.is_replayable, filtered.tranches(), filtered.beginning("0")) == (True, ["0"], 0)
    assert filtered.behind({"0": 6}) == {"0": 2}
    from penstock.processing.sources.source import ReadRequest

    assert [item.stream for item in filtered.reread("0", ReadRequest(0, 1)).items] == ["order-1"]
    assert filtered.reread("0", ReadRequest(4, 1)).items == []
    filtered.close()
