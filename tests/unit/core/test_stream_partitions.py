"""One partition of a stream: events that wait, are sent and are committed, compared with a simple list."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.log.details import EventDetails
from penstock.core.subscriptions.delivery import (
    EVENT_OVERHEAD,
    EventChunk,
    JoinedEvents,
    OutgoingEvents,
    PartitionQueue,
)
from tests.exhaustive import examples


def read(
    *numbers: int, position: int | None = None, joined: bool = False, details: EventDetails | None = None
) -> EventChunk:
    """Return a read with an event at each of these offsets, up to a position."""
    events: Sequence[bytes] = [b"%d" % number for number in numbers]
    if joined:
        events = JoinedEvents(b"\n".join(events), len(numbers))
    run = range(numbers[0], numbers[-1] + 1) if numbers else range(0)
    offsets = run if numbers == tuple(run) else numbers
    after = position if position is not None else numbers[-1] + 1
    return EventChunk(events, offsets, after, [float(number) for number in numbers], details)


def details_of(numbers: Sequence[int]) -> EventDetails | None:
    """Return details in which three neighbours have one time, and the key says the offset, unless it is even."""
    if not numbers:
        return None
    runs = [(at + 1, number // 3) for at, number in enumerate(numbers)]
    runs = [run for run, after in pairwise([*runs, (0, -1)]) if run[1] != after[1]]
    keys = [str(number) if number % 2 else None for number in numbers]
    return EventDetails("a", [end for end, _ in runs], [at for _, at in runs], offsets=numbers, keys=keys)


def offsets_of(taken: OutgoingEvents) -> list[int]:
    """Return the offsets of the events; they are listed where they do not follow from the position."""
    found = [int(each) for each in taken.events]
    follow = range(taken.position - len(found), taken.position)
    assert [*(taken.offsets or follow)] == found
    assert bool(taken.offsets) == (found != [*follow])
    if (details := taken.details) is None:
        assert not found
    else:
        assert details.ends[-1] == len(found)
        assert [details.offset_of(index) for index in range(len(found))] == found
        assert [details.key_of(index) for index in range(len(found))] == [
            str(number) if number % 2 else None for number in found
        ]
        times = [details.received_at_of(index).microsecond for index in range(len(found))]
        assert times == [number // 3 for number in found]
    return found


class Model:
    """The same, as a list of waiting offsets."""

    def __init__(self, committed: int) -> None:
        self.known = self.committed = self.sent = self.read = committed
        self.waiting: list[int] = []

    def add(self, numbers: Sequence[int], position: int) -> None:
        self.waiting += [number for number in numbers if number >= self.read]
        self.read = max(self.read, position)

    def commit(self, position: int) -> None:
        self.known = position
        self.committed = max(self.committed, position)
        if position > self.sent:
            self.waiting = [number for number in self.waiting if number >= position]
            self.sent = position
            self.read = max(self.read, position)

    def take(self, count: int, window: int) -> list[int]:
        if self.sent == self.committed and self.waiting:
            self.committed = self.sent = self.waiting[0]
        found = self.waiting[: min(count, bisect_left(self.waiting, self.sent + window))]
        if not found:
            return []
        self.waiting = self.waiting[len(found) :]
        self.sent = found[-1] + 1 if self.waiting else min(self.read, self.sent + window)
        return found

    def drop(self) -> None:
        if self.waiting:
            self.waiting, self.read = [], self.sent


steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 4), max_size=6), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("commit"), st.integers(-2, 8)),
    st.tuples(st.just("take"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("take batches"), st.integers(1, 2), st.integers(0, 9)),
    st.tuples(st.just("spanned"), st.sampled_from([0.0, 0.5, 1.0, 3.0, 99.0])),
    st.tuples(st.just("again"), st.integers(1, 4), st.booleans()),
    st.just(("drop",)),
)


@settings(max_examples=examples(40, 1000))
@given(st.integers(0, 3), st.lists(steps, max_size=25))
def test_partition_of_a_stream_behaves_like_a_list_of_events(committed: int, played: list[tuple[Any, ...]]) -> None:
    track, model = PartitionQueue(committed, 0.0), Model(committed)
    for name, *how in played:
        if name == "add":
            gaps, more, joined = how
            numbers = [model.read + sum(gaps[: n + 1]) + n for n in range(len(gaps))]
            after = max([model.read, *(number + 1 for number in numbers)]) + more
            joined = joined and bool(numbers)
            track.add(read(*numbers, position=after, joined=joined, details=details_of(numbers)))
            model.add(numbers, after)
        elif name == "again":  # What was read before a commit came past some of it.
            back, joined = how
            numbers = list(range(max(0, model.read - back), model.read + 1))
            track.add(read(*numbers, joined=joined, details=details_of(numbers)))
            model.add(numbers, numbers[-1] + 1)
        elif name == "commit":
            position = model.known + abs(how[0])
            track.commit(position)
            model.commit(position)
        elif name == "take":
            found = track.take(*how)
            assert offsets_of(found) == model.take(*how)
            assert found.position == model.sent
        elif name == "take batches":
            size, window = how
            for found in track.take_batches(size, window) if track.waiting else ():
                before = model.waiting[0] if model.sent == model.committed else model.sent
                assert offsets_of(found) == model.take(size, window)
                assert len(found.events) == size
                assert found.position == model.sent
                window -= model.sent - before
        elif name == "spanned":
            within = [n for n in model.waiting if how[0] and n < model.waiting[0] + how[0]]
            beyond = len(within) < len(model.waiting) and how[0] > 0
            assert track.count_spanned(how[0]) == (len(within) if beyond else len(model.waiting) + 1)
        else:
            track.drop()
            model.drop()
        known = (track.known, track.committed, track.sent, track.read, track.waiting, track.ahead)
        assert known == (model.known, model.committed, model.sent, model.read, len(model.waiting), track.ahead)
        assert track.ahead == model.sent - model.committed
        assert (track.size == 0) == (not model.waiting)
        assert track.size >= sum(EVENT_OVERHEAD + len(str(number)) for number in model.waiting)


def test_events_that_are_sent_whole_are_not_copied() -> None:
    track, given = PartitionQueue(0, 0.0), read(0, 1, 2, joined=True)
    track.add(given)

    assert track.take(3, 10).events is given.events
    track.add(read(3, 4, joined=True))
    assert track.take(1, 10) == OutgoingEvents([b"3"], 4)
    assert list(track.take(9, 10).events) == [b"4"]


def test_batches_are_taken_together_up_to_the_window() -> None:
    track = PartitionQueue(0, 0.0)
    track.add(read(*range(7), position=9, joined=True))

    assert track.take_batches(2, 5) == [OutgoingEvents([b"0", b"1"], 2), OutgoingEvents([b"2", b"3"], 4)]
    assert track.take_batches(2, 1) == []
    assert track.take_batches(1, 9) == [
        OutgoingEvents([b"4"], 5),
        OutgoingEvents([b"5"], 6),
        OutgoingEvents([b"6"], 9, range(6, 7)),
    ]
    assert (track.waiting, track.size, track.ahead) == (0, 0, 9)


def test_window_begins_at_the_first_event_and_has_offsets_without_events_from_there_on() -> None:
    for size in (9, 1):
        track = PartitionQueue(0, 0.0)
        track.add(read(50, 51, 52, 53, position=60))

        taken = [track.take(9, 2)] if size == 9 else track.take_batches(1, 2)
        assert (taken[-1].position, track.committed, track.sent, track.known) == (52, 50, 52, 0)
        assert track.take(9, 20) == OutgoingEvents([b"52", b"53"], 60, [52, 53])

        track.add(read(70, 71, 72, 73))
        taken = [track.take(9, 12)] if size == 9 else track.take_batches(1, 12)
        assert taken[-1].position == 72


def test_size_counts_the_waiting_events() -> None:
    track = PartitionQueue(0, 0.0)
    track.add(read(10, 11, 12))
    assert track.size == 3 * (EVENT_OVERHEAD + 2)
    track.take(2, 10)
    assert track.size == EVENT_OVERHEAD + 2
    track.drop()
    assert (track.size, track.read) == (0, 12)
