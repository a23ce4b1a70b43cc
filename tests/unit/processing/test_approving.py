"""What becomes of a stream whose event comes while it is approved that it is missing."""

from collections.abc import Sequence
from typing import Any

from penstock.processing import Inline, MemorySource, Rules, StreamEvent
from penstock.processing.approving import approve_missing


def events(*indices: int) -> list[StreamEvent]:
    return [StreamEvent("S1", index, "event", b"{}") for index in indices]


def test_where_it_comes_meanwhile_nothing_is_passed_over() -> None:
    source, seen, recorded = MemorySource(), list[int](), list[str]()

    def handle(_: str, them: Sequence[Any]) -> None:
        seen.extend(each.index for each in them)

    def record(tranche: str, reason: str) -> None:
        recorded.append(f"{tranche}: {reason}")
        source.deliver(events(1))
        processor.drain()

    processor = Inline(handle, source, rules=Rules(require_all=True))
    source.deliver(events(0, 3, 4))
    processor.drain()
    approve_missing("S1", "lost", processor.engine, record, lambda do: do())
    assert recorded == ["0: S1 goes on at 3, though 1 has not come: lost"]
    source.deliver(events(2))
    processor.drain()
    assert seen == [0, 1, 2, 3, 4]
