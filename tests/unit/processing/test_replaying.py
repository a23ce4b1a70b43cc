"""Many parked streams are tried again at once, by few pages, of which no more is held than may be read ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.processing import Batch, Inline, MemoryCheckpoints, MemorySource, Rules
from penstock.processing.replaying import replays_of
from penstock.processing.sources.source import Want
from penstock.processing.stream_event import StreamEvent

STREAMS = [f"S{n}" for n in range(20)]


class Counted(MemorySource):
    """A source that keeps what it was asked for again."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Want] = []

    def reread(self, tranche: str, want: Want) -> Batch:
        self.asked.append(want)
        return super().reread(tranche, want)


class Parked:
    """A processor all of whose streams are parked, and what it does once the handler is mended."""

    def __init__(self, batches: Sequence[Sequence[str]], events_ahead: int) -> None:
        self.source, self.checkpoints = Counted(), MemoryCheckpoints()
        self.handled: list[tuple[str, int]] = []
        self.held: list[int] = []
        self._is_mended = False
        self._ends: dict[str, int] = {}
        rules = Rules(attempts_max=1, exhausted="park", events_ahead=events_ahead, events_per_call=1)
        self.running = Inline(self._handle, self.source, checkpoints=self.checkpoints, rules=rules)
        for streams in batches:
            self.source.deliver([self._event(stream) for stream in streams])
        self.running.drain()
        assert {each.stream for each in self.checkpoints.parked()} == set(self._ends)

    def tried_again(self) -> Mapping[str, int]:
        """Mend the handler, have all tried again, and return how many events each stream has had."""
        self._is_mended = True
        for stream in self._ends:
            self.checkpoints.ask(stream, "retry")
        self.running.drain()
        assert not self.checkpoints.parked()
        assert all(
            [index for name, index in self.handled if name == stream] == [*range(count)]
            for stream, count in self._ends.items()
        )
        return self._ends

    def _event(self, stream: str) -> StreamEvent:
        index = self._ends.get(stream, 0)
        self._ends[stream] = index + 1
        return StreamEvent(stream, index, "event", b"{}", tranche="0")

    def _handle(self, stream: str, events: Sequence[Any]) -> None:
        if not self._is_mended:
            raise ValueError("not yet")
        self.held.append(self.running.engine.replaying("0"))
        self.handled += [(stream, event.index) for event in events]


def test_streams_that_are_read_on_from_the_same_place_share_its_page() -> None:
    parked = Parked([STREAMS * 2], events_ahead=1000)
    assert sum(parked.tried_again().values()) == 40

    assert [want.position for want in parked.source.asked] == [0]


@pytest.mark.parametrize("events_ahead", [1, 5, 8])
def test_no_more_is_held_of_streams_that_are_tried_again_than_may_be_read_ahead(events_ahead: int) -> None:
    parked = Parked([[stream] * 5 for stream in STREAMS], events_ahead)
    parked.tried_again()

    assert max(parked.held) == events_ahead // 2 + 5, "and a batch, since these come whole"


def test_no_page_is_larger_than_what_there_is_room_for() -> None:
    parked = Parked([STREAMS], events_ahead=30)
    parked.running.engine.retry("S0")

    [replay] = replays_of(parked.running.engine, ["0"])
    assert replay.want.events_max == 30
    assert replays_of(parked.running.engine, ["another"]) == []
