"""Tranches change hands in order while calls last long, processes pause, and commits are under way."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.core.groups.parking import Request
from penstock.errors import CheckpointMoved
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules
from penstock.processing.checkpoints.checkpoint import Advance
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.outcomes import retry
from penstock.processing.progress import CONCEDED_MAX
from penstock.processing.sources import MemorySource
from penstock.processing.stream_event import StreamEvent
from tests.processing.office import SOON_SECONDS, Leases, Office, StandingOffice, until


class Work:
    """The calls of processors; a call waits as long as it is held up."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        self.begun: list[tuple[str, str]] = []
        self.two_at_once: list[str] = []
        self.held_up: dict[tuple[str, str], threading.Event] = {}
        self._active: set[str] = set()
        self._turn = threading.Lock()

    def hold_up(self, name: str, stream: str) -> threading.Event:
        """Return what lets calls of a stream at one of them go on."""
        return self.held_up.setdefault((name, stream), threading.Event())

    def handler(self, name: str) -> Callable[[str, Sequence[Any]], Any]:
        def handle(stream: str, events: Sequence[Any]) -> None:
            with self._turn:
                if stream in self._active:
                    self.two_at_once.append(stream)
                self._active.add(stream)
                self.begun.append((name, stream))
            if (name, stream) in self.held_up:
                assert self.held_up[name, stream].wait(SOON_SECONDS)
            with self._turn:
                self._active.discard(stream)
                self.seen += [(name, stream, event.data) for event in events]

        return handle

    def of(self, stream: str) -> list[Any]:
        """Return the events of a stream as they were handled."""
        return [data for _, found, data in self.seen if found == stream]


class Slow(DatabaseCheckpoints):
    """Checkpoints whose commits can be held up on their way."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "shared")
        self.is_slow = False
        self.under_way, self.go_on, self.has_landed = threading.Event(), threading.Event(), threading.Event()

    def commit(self, advance: Advance) -> None:
        if not self.is_slow:
            super().commit(advance)
            return
        self.under_way.set()
        assert self.go_on.wait(SOON_SECONDS)
        try:
            super().commit(advance)
        finally:
            self.has_landed.set()


class Plain:
    """Checkpoints that nobody can take over, as those at a hub are."""

    keeps_parked = True
    name = "shared"

    def __init__(self, kept: DatabaseCheckpoints) -> None:
        self._kept = kept

    def positions(self) -> Mapping[str, Position]:
        return self._kept.positions()

    def parked(self) -> Sequence[Parked]:
        return self._kept.parked()

    def requests(self) -> Mapping[Place, Request]:
        return self._kept.requests()

    def commit(self, advance: Advance) -> None:
        self._kept.commit(advance._replace(owner=None))


class Moving(Plain):
    """Checkpoints that somebody moves before each commit."""

    commits = 0

    def commit(self, advance: Advance) -> None:
        self.commits += 1
        raise CheckpointMoved(group=self.name, tranche=next(iter(advance.moves)), expected=0, found=self.commits)


class Shift:
    """Processors that share the tranches of a source, the office with their leases, and their checkpoints."""

    def __init__(self, url: str, office: Office | None = None) -> None:
        self.office = office or Office()
        self.work = Work()
        self.source = MemorySource("0", "1")
        self.checkpoints = DatabaseCheckpoints(url, "shared")
        self.leases: dict[str, Leases] = {}
        self._url = url
        self._begun: list[LocalProcessor] = []

    def start(self, name: str, handler: Any = None, **options: Any) -> LocalProcessor:
        """Start a processor, and wait until the office knows it."""
        self.leases[name] = Leases(self.office, name)
        given = {
            "source": self.source, "checkpoints": self.checkpoints, "leases": self.leases[name], "name": name,
            "clock": self.office.clock, "commit_interval": 0.0, "stats_interval": None, **options,
        }  # fmt: skip
        processor = LocalProcessor(handler or self.work.handler(name), **given).start()
        self._begun.append(processor)
        until(lambda: name in self.office.shared.members, processor)
        return processor

    def append(self, stream: str, *numbers: int, tranche: str = "0") -> None:
        """Append numbers to a stream, each as a batch."""
        for number in numbers:
            self.source.append(stream, [number], tranche=tranche)

    def stop(self) -> None:
        """Stop all processors."""
        for each in self._begun:
            each.stop()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shared.db"


@pytest.fixture
def shift(url: str) -> Shift:
    return Shift(url)


def stopping(processor: LocalProcessor) -> threading.Thread:
    thread = threading.Thread(target=processor.stop)
    thread.start()
    assert processor._stopping.wait(SOON_SECONDS)
    return thread


def test_stopping_processor_keeps_only_the_lease_of_its_running_call(shift: Shift) -> None:
    work, office = shift.work, shift.office
    shift.append("long", 0)
    go_on = work.hold_up("a", "long")
    a = shift.start("a")
    until(lambda: work.begun == [("a", "long")], a)
    shift.append("long", 1, 2)
    thread = stopping(a)
    b = shift.start("b")
    shift.append("short", 0, tranche="1")
    until(lambda: work.of("short") == [0], b)
    for _ in range(20):
        office.pass_time(a, b, unless=lambda: work.two_at_once)
    assert not work.two_at_once
    assert office.has("a") == {"0"}
    go_on.set()
    thread.join()
    office.pass_time(b)
    until(lambda: work.of("long") == [0, 1, 2], b)
    shift.stop()
    assert [name for name, stream, _ in work.seen if stream == "long"] == ["a", "b", "b"]
    assert shift.checkpoints.positions() == {"0": 3, "1": 1}


def test_finished_events_are_not_repeated_when_a_processor_joins(shift: Shift) -> None:
    """No position can pass their page: at the hand-over one stream of it waits, and the call of another is open."""
    work, positions = shift.work, shift.checkpoints.positions
    streams = [f"{name}-{tranche}" for tranche in ("0", "1") for name in ("waiting", "open", "first", "second")]
    for tranche in ("0", "1"):
        page = [StreamEvent(stream, 0, "event", b"0") for stream in streams if stream.endswith(tranche)]
        shift.source.deliver(page, tranche=tranche)
    opens = [work.hold_up("a", "open-0"), work.hold_up("a", "open-1")]
    handle = work.handler("a")

    def wait(stream: str, events: Sequence[Any]) -> Any:
        return retry(3600) if stream.startswith("waiting") else handle(stream, events)

    a = shift.start("a", wait)
    until(lambda: len(work.begun) == 6 and len(work.seen) == 4, a)
    b = shift.start("b")
    shift.office.pass_time(a, b)
    until(lambda: a._progress.closing, a)
    for each in opens:
        each.set()
    b.wait_until_caught_up(SOON_SECONDS)
    a.stop()
    shift.office.pass_time(b)
    until(lambda: positions() == {"0": 1, "1": 1}, b)
    shift.stop()
    assert sorted(stream for _, stream, _ in work.seen) == sorted(streams)


def test_idle_processor_takes_a_new_tranche(shift: Shift) -> None:
    shift.source = MemorySource("0")
    a = shift.start("a")
    until(lambda: a._progress._open, a)
    b = shift.start("b")
    until(lambda: b._progress._is_assigned and b._progress.has_begun, b)
    shift.append("S", 0, tranche="new")
    shift.office.pass_time(a, b)
    until(lambda: shift.work.seen == [("b", "S", 0)], b)
    b.wait_until_caught_up(SOON_SECONDS)
    shift.stop()
    assert shift.checkpoints.positions() == {"0": 0, "new": 1}


def test_lease_that_cannot_be_renewed_during_a_stop_is_given_up(shift: Shift) -> None:
    work, positions = shift.work, shift.checkpoints.positions
    shift.source = MemorySource()
    shift.append("S", 0)
    go_on = work.hold_up("a", "S")
    a = shift.start("a")
    until(lambda: work.begun and positions() == {"0": 0}, a)
    shift.leases["a"].is_cut = True
    thread = stopping(a)
    shift.office.jump()
    go_on.set()
    thread.join()
    assert work.of("S") == [0]
    assert positions() == {"0": 0}, "others may have it by now"


def test_endless_call_keeps_its_lease_after_the_processor_stopped(
    shift: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.runners.local.STOP_TIMEOUT", 0.0)
    shift.append("endless", 0)
    go_on = shift.work.hold_up("a", "endless")
    a = shift.start("a")
    until(lambda: shift.work.begun and len(a._progress._open) == 2, a)
    a.stop()
    assert shift.office.has("a") == {"0"}
    go_on.set()


def test_processor_that_paused_beyond_its_lease_makes_no_call(shift: Shift) -> None:
    called: list[str] = []
    go_on = threading.Event()
    for number in range(5):
        shift.append(f"S{number}", number)

    def handle(stream: str, events: Sequence[Any]) -> None:
        called.append(stream)
        assert go_on.wait(SOON_SECONDS)
        shift.office.jump()  # So long the process stands still.

    a = shift.start("a", handle, rules=Rules(concurrency=1))
    until(lambda: called and len(a.engine.list_known()) == 5, a)
    shift.leases["a"].is_cut = True
    go_on.set()
    until(lambda: a._progress.closing and not a.engine.busy.active, a)
    shift.stop()
    assert called == ["S0"]


def test_processor_that_cannot_renew_gives_up_before_its_lease_ends(url: str) -> None:
    shift = Shift(url, StandingOffice())
    shift.append("S", 0)
    running = shift.start("a")
    until(lambda: shift.work.of("S"), running)
    shift.leases["a"].is_cut = True
    shift.office.pass_time(part=0.9)
    until(lambda: not running._progress.plan_reads(), running)
    shift.append("S", 1)
    shift.stop()
    assert shift.work.of("S") == [0]


def test_call_that_waits_for_a_thread_is_not_made_after_the_lease_ended(shift: Shift) -> None:
    work = shift.work
    a = shift.start("a", rules=Rules(concurrency=1, timeout=None))
    shift.append("quick", 0)
    until(lambda: work.of("quick") == [0], a)
    go_on = work.hold_up("a", "S0")
    for number in range(5):
        shift.append(f"S{number}", number)
    until(lambda: len(a.engine.busy.active) == 5, a)
    shift.leases["a"].is_cut = True
    shift.office.jump()
    until(lambda: len(a.engine.busy.active) == 1, a)
    go_on.set()
    until(lambda: a._progress.closing and not a.engine.busy.active, a)
    shift.stop()
    assert work.begun == [("a", "quick"), ("a", "S0")]


@pytest.mark.parametrize("is_fenced", [True, False], ids=["taken over", "known by position alone"])
def test_commit_that_lands_after_the_lease_was_lost_ends_no_processor(
    shift: Shift, url: str, caplog: pytest.LogCaptureFixture, *, is_fenced: bool
) -> None:
    slow, kept, work = Slow(url), shift.checkpoints, shift.work
    shift.source = MemorySource()
    shift.append("S", 0)
    a = shift.start("a", checkpoints=slow if is_fenced else Plain(slow))
    until(lambda: slow.positions() == {"0": 1}, a)
    slow.is_slow = True
    shift.append("S", 1)
    until(slow.under_way.is_set, a)
    shift.leases["a"].is_cut = True
    shift.office.jump()
    until(lambda: not a._progress._owned, a)
    go_on = work.hold_up("b", "S")
    b = shift.start("b", checkpoints=kept if is_fenced else Plain(kept))
    until(lambda: ("b", "S") in work.begun, b)
    slow.go_on.set()
    assert slow.has_landed.wait(SOON_SECONDS)
    landed = kept.positions()
    go_on.set()
    b.wait_until_caught_up(SOON_SECONDS)
    shift.append("S", 2)
    b.wait_until_caught_up(SOON_SECONDS)
    shift.stop()
    assert landed == {"0": 1 if is_fenced else 2}
    assert work.of("S") == [0, 1, 1, 2]
    assert kept.positions() == {"0": 3}
    assert sum("comes again, to whoever has it" in record.getMessage() for record in caplog.records) == 1


def test_processor_ends_after_its_tranche_was_moved_too_often(shift: Shift) -> None:
    moving = Moving(shift.checkpoints)
    shift.source = MemorySource()
    shift.append("S", 0)
    a = shift.start("a", lambda *_: None, checkpoints=moving)
    until(lambda: a.wait(0), a)
    with pytest.raises(CheckpointMoved):
        a.stop()
    assert moving.commits == CONCEDED_MAX + 1


def test_tranche_is_released_after_its_parked_streams_are_committed(url: str) -> None:
    """A stream is parked, while another holds its position."""

    def handle(stream: str, _: Any) -> Any:
        if stream == "parks":
            raise ValueError("no")
        return retry(60) if stream == "waits" else None

    source, checkpoints = MemorySource(), DatabaseCheckpoints(url, "shared")
    processor = InlineProcessor(handle, source, checkpoints=checkpoints, rules=Rules(attempts_max=1, exhausted="park"))
    processor._progress.own(frozenset("0"))
    source.append("goes", [0])
    processor.drain()
    for stream in ("waits", "parks"):
        source.append(stream, [0])
        processor._read()
    while processor._call():
        pass
    assert processor.engine.parking.streams.keys() == {"parks"}
    processor._progress.own(frozenset())
    assert processor._progress.forget_finished() == frozenset()
    processor._progress.commit()
    assert processor._progress.forget_finished() == {"0"}
    assert [each.stream for each in checkpoints.parked()] == ["parks"]


def test_tranche_that_comes_back_is_opened_again_and_not_released(url: str) -> None:
    source = MemorySource()
    source.append("S", [0])
    processor = InlineProcessor(lambda *_: None, source, checkpoints=DatabaseCheckpoints(url, "shared"))
    progress = processor._progress
    progress.own(frozenset("0"))
    processor.drain()
    progress.own(frozenset())
    progress.give_up()
    progress.own(frozenset("0"))
    assert progress.forget_finished() == frozenset()
    assert progress.find_new_tranches()["0"].position == 1


class Hesitant(MemorySource):
    """A source that takes its time to say where a tranche begins."""

    def __init__(self, shared: MemorySource) -> None:
        super().__init__()
        self._batches, self._changed, self._counts = shared._batches, shared._changed, shared._counts
        self.is_asked, self.go_on = threading.Event(), threading.Event()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        self.is_asked.set()
        assert self.go_on.wait(SOON_SECONDS)
        return super().beginning(tranche, kept)


def test_leased_tranche_that_is_not_open_yet_is_released_to_another(shift: Shift) -> None:
    work, office = shift.work, shift.office
    for tranche in "01":
        shift.append(f"S{tranche}", 0, tranche=tranche)
    hesitant = Hesitant(shift.source)
    a = shift.start("a", source=hesitant)
    until(hesitant.is_asked.is_set, a)
    assert office.has("a") == {"0", "1"}
    b = shift.start("b")
    office.pass_time(a, b)
    until(lambda: len(office.has("b")) == 1, a, b)
    office.pass_time(a, b)
    until(lambda: work.seen, a, b)
    assert {name for name, _ in work.begun} == {"b"}
    hesitant.go_on.set()
    until(lambda: len(work.seen) == 2, a, b)
    shift.stop()
    assert sorted(name for name, *_ in work.seen) == ["a", "b"]


def test_failed_release_is_repeated(shift: Shift) -> None:
    a = shift.start("a")
    until(lambda: len(a._progress._open) == 2, a)
    shift.leases["a"].releases_lost = 1
    b = shift.start("b")
    shift.office.pass_time(a, b)
    until(lambda: not shift.leases["a"].releases_lost, a)
    for _ in range(2):
        shift.office.pass_time(a, b)
    until(lambda: len(shift.office.has("b")) == 1, a, b)
    shift.stop()


def test_failing_stream_is_handed_over_in_order(shift: Shift) -> None:
    work, office = shift.work, shift.office
    for tranche in "01":
        shift.append(f"S{tranche}", 0, 1, 2, tranche=tranche)

    def fail(stream: str, events: Sequence[Any]) -> Any:
        if events[0].index == 0:
            work.seen.append(("a", stream, events[0].data))
            return 1
        raise ValueError("no")

    a = shift.start("a", fail)
    until(lambda: len(a.engine.busy.failing) == 2, a)
    b = shift.start("b")
    office.pass_time(a, b)
    until(lambda: len(work.seen) == 4, a, b)
    until(lambda: len(a.engine.busy.failing) == 1, a)
    a.stop()
    office.pass_time(b)
    until(lambda: len(work.seen) == 6, b)
    shift.stop()
    assert {stream: work.of(stream) for stream in ("S0", "S1")} == {"S0": [0, 1, 2], "S1": [0, 1, 2]}
    assert shift.checkpoints.positions() == {"0": 3, "1": 3}


def test_parked_stream_is_handed_over_and_retried_by_the_new_owner(shift: Shift) -> None:
    work, checkpoints = shift.work, shift.checkpoints
    shift.append("waits", 0, tranche="1")
    shift.append("parks", 0, 1, tranche="1")

    def fail(stream: str, _: Any) -> Any:
        if stream == "waits":
            return retry(3600)
        raise ValueError("no")

    rules = Rules(attempts_max=1, exhausted="park")
    a = shift.start("a", fail, rules=rules, commit_interval=3600)
    until(lambda: "parks" in a.engine.parking.streams and checkpoints.positions(), a)
    until(lambda: not a._committer.is_busy, a)
    assert not checkpoints.parked()
    b = shift.start("b", rules=rules)
    shift.office.pass_time(a, b)
    until(lambda: work.of("waits") == [0], b)
    assert [(each.index, each.next) for each in checkpoints.parked()] == [(0, 2)]
    checkpoints.ask("parks", "retry")
    until(lambda: work.of("parks") == [0, 1], b)
    b.wait_until_caught_up(SOON_SECONDS)
    shift.stop()
    assert not checkpoints.parked()
