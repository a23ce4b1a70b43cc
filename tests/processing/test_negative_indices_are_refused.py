"""Indices begin at 0. An event with a negative index would pass for a repeat: it is refused, and ends the processor."""

from contextlib import closing

import msgspec
import pytest

from penstock.errors import BadParameter
from penstock.processing import LocalProcessor, StreamEvent
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.database import connector
from penstock.processing.engine.tranche import SourceItem
from penstock.processing.projections.projection import KeyedEvent, Projection
from penstock.processing.sources import IterableSource


class Count(msgspec.Struct):
    events: int = 0


def by_stream(event: StreamEvent) -> str:
    return event.stream


COUNTS = Projection("counts", Count, lambda state, _: Count(state.events + 1), key=by_stream)


def source() -> IterableSource:
    batches: list[list[SourceItem]] = [
        [StreamEvent("b", 0, "event", b"{}")],
        [StreamEvent("b", 1, "event", b"{}"), *(StreamEvent("a", at, "event", b"{}") for at in (-3, -2, -1, 0, 1))],
    ]
    return IterableSource(batches)


def test_processor_ends_at_a_negative_index_and_names_the_event() -> None:
    seen, kept = list[str](), MemoryCheckpoints()
    told = r"index is '-3 of a in 0'; allowed: indices from 0 on, below .*: its source has to number the events"
    with (
        pytest.raises(BadParameter, match=told),
        LocalProcessor(
            lambda stream, _: seen.append(stream), source(), checkpoints=kept, commit_interval=0.01
        ) as running,
    ):
        running.wait_until_caught_up(300)
    assert "a" not in seen
    assert kept.positions().get("0", 0) in (0, 1), "the second batch is not handled"


def test_projection_keeps_its_rows_at_a_negative_index(database_url: str) -> None:
    processor = COUNTS.inline(source(), database_url)
    with pytest.raises(BadParameter, match=r"index is '-3 of \[\"a\"\] in 0 in 0'"):
        processor.drain()
    processor.drain()

    with closing(connector(database_url)()) as connection:
        assert {row[0] for row in connection.execute("SELECT key FROM counts").fetchall()} == {"b"}
    assert DatabaseCheckpoints(database_url, "counts_v1").positions() == {"0": 1}


def test_fold_fails_at_a_negative_index() -> None:
    entries = [KeyedEvent("a", at, at + 1, ("a",), "0", None) for at in (-2, -1, 0)]

    row, failed, error = COUNTS.fold(None, "0", entries)

    assert (row, failed) == (None, entries[0])
    assert "index is '-2 of a in 0'; allowed: indices from 0 on" in str(error)
