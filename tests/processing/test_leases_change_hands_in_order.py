"""Tranches change hands in order while calls last long, processes stand still, and commits are under way."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from penstock.errors import CheckpointMoved
from penstock.processing import DatabaseCheckpoints, Inline, Local, MemorySource, Rules, retry
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, Request
from penstock.processing.engine.item import Position
from penstock.processing.engine.parked import Parked, Place
from penstock.processing.progress import CONCEDED_MAX
from penstock.processing.stream_event import StreamEvent
from tests.processing.office import SOON_S, Leases, Office, StandingOffice, until


class Work:
    """What processors are called with; a call waits for as long as it is held up."""

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
                assert self.held_up[name, stream].wait(SOON_S)
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
        assert self.go_on.wait(SOON_S)
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


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def url(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/shared.db"


def local(
    office: Office,
    handler: Any,
    source: MemorySource,
    checkpoints: Checkpoints,
    name: str,
    *,
    leases: Leases | None = None,
    rules: Rules | None = None,
) -> Local:
    leases = leases or Leases(office, name)
    given: dict[str, Any] = {"checkpoints": checkpoints, "leases": leases, "rules": rules, "name": name}
    return Local(handler, source, clock=office.clock, commit_s=0.0, stats_s=None, **given)


def stopping(processor: Local) -> threading.Thread:
    thread = threading.Thread(target=processor.stop)
    thread.start()
    assert processor._stopping.wait(SOON_S)
    return thread


def test_who_stops_keeps_the_lease_of_a_call_however_long_it_lasts_and_no_other(
    office: Office, work: Work, url: str
) -> None:
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    source.append("long", [0], tranche="0")
    go_on = work.hold_up("a", "long")
    a = local(office, work.handler("a"), source, checkpoints, "a").start()
    until(lambda: work.begun == [("a", "long")], a)
    for number in (1, 2):
        source.append("long", [number], tranche="0")
    thread = stopping(a)
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    source.append("short", [0], tranche="1")
    until(lambda: work.of("short") == [0], b)
    for _ in range(20):
        office.pass_time(a, b, unless=lambda: work.two_at_once)
    assert not work.two_at_once
    assert office.has("a") == {"0"}
    go_on.set()
    thread.join()
    office.pass_time(b)
    until(lambda: work.of("long") == [0, 1, 2], b)
    b.stop()
    assert [name for name, stream, _ in work.seen if stream == "long"] == ["a", "b", "b"]
    assert checkpoints.positions() == {"0": 3, "1": 1}


def test_finished_events_are_not_handled_again_when_a_processor_joins(office: Office, work: Work, url: str) -> None:
    """No position can pass their page: at the hand-over one stream of it waits, and the call of another is open."""
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    streams = [f"{name}-{tranche}" for tranche in ("0", "1") for name in ("waiting", "open", "first", "second")]
    for tranche in ("0", "1"):
        page = [StreamEvent(stream, 0, "event", b"0") for stream in streams if stream.endswith(tranche)]
        source.deliver(page, tranche=tranche)
    opens = [work.hold_up("a", "open-0"), work.hold_up("a", "open-1")]
    handle = work.handler("a")

    def wait(stream: str, events: Sequence[Any]) -> Any:
        return retry(3600) if stream.startswith("waiting") else handle(stream, events)

    a = local(office, wait, source, checkpoints, "a").start()
    until(lambda: len(work.begun) == 6 and len(work.seen) == 4, a)
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    until(lambda: office.shared.members.keys() == {"a", "b"}, b)
    office.pass_time(a, b)
    until(lambda: a._progress.closing, a)
    for each in opens:
        each.set()
    b.wait_until_caught_up(SOON_S)
    a.stop()
    office.pass_time(b)
    until(lambda: checkpoints.positions() == {"0": 1, "1": 1}, b)
    b.stop()
    assert sorted(stream for _, stream, _ in work.seen) == sorted(streams)


def test_who_had_nothing_to_do_handles_a_tranche_that_is_new(office: Office, work: Work, url: str) -> None:
    source, checkpoints = MemorySource("0"), DatabaseCheckpoints(url, "shared")
    a = local(office, work.handler("a"), source, checkpoints, "a").start()
    until(lambda: a._progress._open, a)
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    until(lambda: b._progress._is_told and b._progress.has_begun, b)
    source.append("S", [0], tranche="new")
    office.pass_time(a, b)
    until(lambda: work.seen == [("b", "S", 0)], b)
    b.wait_until_caught_up(SOON_S)
    a.stop()
    b.stop()
    assert checkpoints.positions() == {"0": 0, "new": 1}


def test_what_could_not_be_renewed_while_it_stops_is_given_up(office: Office, work: Work, url: str) -> None:
    source, checkpoints, leases = MemorySource(), DatabaseCheckpoints(url, "shared"), Leases(office, "a")
    source.append("S", [0])
    go_on = work.hold_up("a", "S")
    a = local(office, work.handler("a"), source, checkpoints, "a", leases=leases).start()
    until(lambda: work.begun and checkpoints.positions() == {"0": 0}, a)
    leases.is_cut = True
    thread = stopping(a)
    office.jump()
    go_on.set()
    thread.join()
    assert work.of("S") == [0]
    assert checkpoints.positions() == {"0": 0}, "others may have it by now"


def test_what_cannot_be_waited_for_any_longer_keeps_its_lease_until_that_is_over(
    office: Office, work: Work, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.runners.local.STOP_S_MAX", 0.0)
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    source.append("endless", [0], tranche="0")
    go_on = work.hold_up("a", "endless")
    a = local(office, work.handler("a"), source, checkpoints, "a").start()
    until(lambda: work.begun and len(a._progress._open) == 2, a)
    a.stop()
    assert office.has("a") == {"0"}
    go_on.set()


def test_who_has_stood_still_beyond_its_lease_hands_out_no_call(office: Office, url: str) -> None:
    source, checkpoints, leases = MemorySource(), DatabaseCheckpoints(url, "shared"), Leases(office, "a")
    for number in range(5):
        source.append(f"S{number}", [number])
    called: list[str] = []
    go_on = threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        called.append(stream)
        assert go_on.wait(SOON_S)
        office.jump()  # So long the process stands still.

    rules = Rules(concurrency=1)
    a = local(office, handle, source, checkpoints, "a", leases=leases, rules=rules).start()
    until(lambda: called and len(a.engine.known()) == 5, a)
    leases.is_cut = True
    go_on.set()
    until(lambda: a._progress.closing and not a.engine.busy.active, a)
    a.stop()
    assert called == ["S0"]


def test_who_cannot_renew_its_lease_has_given_up_before_that_is_over(work: Work, url: str) -> None:
    office, source = StandingOffice(), MemorySource()
    leases = Leases(office, "a")
    source.append("S", [0])
    running = local(office, work.handler("a"), source, DatabaseCheckpoints(url, "shared"), "a", leases=leases)
    with running:
        until(lambda: work.of("S"), running)
        leases.is_cut = True
        office.pass_time(part=0.9)
        until(lambda: not running._progress.wants(), running)
        source.append("S", [1])
    assert work.of("S") == [0]


def test_what_waits_for_a_thread_is_not_begun_with_when_the_lease_is_over(office: Office, work: Work, url: str) -> None:
    source, checkpoints, leases = MemorySource(), DatabaseCheckpoints(url, "shared"), Leases(office, "a")
    rules = Rules(concurrency=1, timeout_s=None)
    a = local(office, work.handler("a"), source, checkpoints, "a", leases=leases, rules=rules).start()
    source.append("quick", [0])
    until(lambda: work.of("quick") == [0], a)
    go_on = work.hold_up("a", "S0")
    for number in range(5):
        source.append(f"S{number}", [number])
    until(lambda: len(a.engine.busy.active) == 5, a)
    leases.is_cut = True
    office.jump()
    until(lambda: len(a.engine.busy.active) == 1, a)
    go_on.set()
    until(lambda: a._progress.closing and not a.engine.busy.active, a)
    a.stop()
    assert work.begun == [("a", "quick"), ("a", "S0")]


@pytest.mark.parametrize("is_fenced", [True, False], ids=["taken over", "known by position alone"])
def test_a_commit_that_lands_when_the_lease_is_lost_ends_nobody(
    office: Office, work: Work, url: str, caplog: pytest.LogCaptureFixture, *, is_fenced: bool
) -> None:
    source, slow, kept = MemorySource(), Slow(url), DatabaseCheckpoints(url, "shared")
    leases = Leases(office, "a")
    source.append("S", [0])
    a = local(office, work.handler("a"), source, slow if is_fenced else Plain(slow), "a", leases=leases).start()
    until(lambda: slow.positions() == {"0": 1}, a)
    slow.is_slow = True
    source.append("S", [1])
    until(slow.under_way.is_set, a)
    leases.is_cut = True
    office.jump()
    until(lambda: not a._progress._owned, a)
    go_on = work.hold_up("b", "S")
    b = local(office, work.handler("b"), source, kept if is_fenced else Plain(kept), "b").start()
    until(lambda: ("b", "S") in work.begun, b)
    slow.go_on.set()
    assert slow.has_landed.wait(SOON_S)
    landed = kept.positions()
    go_on.set()
    b.wait_until_caught_up(SOON_S)
    source.append("S", [2])
    b.wait_until_caught_up(SOON_S)
    b.stop()
    a.stop()
    assert landed == {"0": 1 if is_fenced else 2}
    assert work.of("S") == [0, 1, 1, 2]
    assert kept.positions() == {"0": 3}
    told = [record.getMessage() for record in caplog.records if "comes again, to whoever has it" in record.getMessage()]
    assert len(told) == 1


def test_a_tranche_that_others_move_again_and_again_ends_its_processor(office: Office, url: str) -> None:
    source, moving = MemorySource(), Moving(DatabaseCheckpoints(url, "shared"))
    source.append("S", [0])
    a = local(office, lambda *_: None, source, moving, "a").start()
    until(lambda: a.wait(0), a)
    with pytest.raises(CheckpointMoved):
        a.stop()
    assert moving.commits == CONCEDED_MAX + 1


def parking(url: str, source: MemorySource) -> Inline:
    """Return a processor that has a lease, and parks a stream while another holds its position."""

    def handle(stream: str, _: Any) -> Any:
        if stream == "parks":
            raise ValueError("no")
        return retry(60) if stream == "waits" else None

    rules = Rules(attempts_max=1, exhausted="park")
    found = Inline(handle, source, checkpoints=DatabaseCheckpoints(url, "shared"), rules=rules)
    found._progress.own(frozenset("0"))
    source.append("goes", [0])
    found.drain()
    for stream in ("waits", "parks"):
        source.append(stream, [0])
        found._read()
    while found._call():
        pass
    assert found.engine.parking.streams.keys() == {"parks"}
    assert found.engine.positions() == {"0": 1}
    return found


def test_what_is_parked_by_who_was_taken_over_is_not_kept_though_no_position_moves(url: str) -> None:
    source = MemorySource()
    first = parking(url, source)
    second = Inline(lambda *_: None, source, checkpoints=DatabaseCheckpoints(url, "shared"))
    second._progress.own(frozenset("0"))
    second._read()
    with pytest.raises(CheckpointMoved, match="at 1, but another's"):
        first._progress.commit()
    assert not DatabaseCheckpoints(url, "shared").parked()


def test_a_tranche_is_not_let_go_of_before_what_is_parked_is_kept(url: str) -> None:
    processor = parking(url, MemorySource())
    processor._progress.own(frozenset())
    assert processor._progress.closed() == frozenset()
    processor._progress.commit()
    assert processor._progress.closed() == {"0"}
    assert [each.stream for each in DatabaseCheckpoints(url, "shared").parked()] == ["parks"]


def test_what_is_this_ones_again_is_begun_with_anew_and_not_let_go_of(url: str) -> None:
    source = MemorySource()
    source.append("S", [0])
    processor = Inline(lambda *_: None, source, checkpoints=DatabaseCheckpoints(url, "shared"))
    progress = processor._progress
    progress.own(frozenset("0"))
    processor.drain()
    progress.own(frozenset())
    progress.give_up()
    progress.own(frozenset("0"))
    assert progress.closed() == frozenset()
    assert progress.survey()["0"].position == 1


class Hesitant(MemorySource):
    """A source that takes its time to say where a tranche begins."""

    def __init__(self, shared: MemorySource) -> None:
        super().__init__()
        self._batches, self._changed, self._counts = shared._batches, shared._changed, shared._counts
        self.is_asked, self.go_on = threading.Event(), threading.Event()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        self.is_asked.set()
        assert self.go_on.wait(SOON_S)
        return super().beginning(tranche, kept)


def test_what_was_leased_and_not_begun_with_is_let_go_of_for_another(office: Office, work: Work, url: str) -> None:
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    for tranche in "01":
        source.append(f"S{tranche}", [0], tranche=tranche)
    hesitant = Hesitant(source)
    a = local(office, work.handler("a"), hesitant, checkpoints, "a").start()
    until(hesitant.is_asked.is_set, a)
    assert office.has("a") == {"0", "1"}
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    until(lambda: "b" in office.shared.members, b)
    office.pass_time(a, b)
    until(lambda: len(office.has("b")) == 1, a, b)
    office.pass_time(a, b)
    until(lambda: work.seen, a, b)
    assert {name for name, _ in work.begun} == {"b"}
    hesitant.go_on.set()
    until(lambda: len(work.seen) == 2, a, b)
    a.stop()
    b.stop()
    assert sorted(name for name, *_ in work.seen) == ["a", "b"]


def test_a_release_that_has_failed_is_made_up_for(office: Office, work: Work, url: str) -> None:
    source, checkpoints, leases = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared"), Leases(office, "a")
    a = local(office, work.handler("a"), source, checkpoints, "a", leases=leases).start()
    until(lambda: len(a._progress._open) == 2, a)
    leases.releases_lost = 1
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    until(lambda: "b" in office.shared.members, b)
    office.pass_time(a, b)
    until(lambda: not leases.releases_lost, a)
    for _ in range(2):
        office.pass_time(a, b)
    until(lambda: len(office.has("b")) == 1, a, b)
    a.stop()
    b.stop()


def test_a_stream_that_fails_is_handed_over_in_order(office: Office, work: Work, url: str) -> None:
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    for tranche in "01":
        for number in range(3):
            source.append(f"S{tranche}", [number], tranche=tranche)

    def fail(stream: str, events: Sequence[Any]) -> Any:
        if events[0].index == 0:
            work.seen.append(("a", stream, events[0].data))
            return 1
        raise ValueError("no")

    a = local(office, fail, source, checkpoints, "a").start()
    until(lambda: len(a.engine.busy.failing) == 2, a)
    b = local(office, work.handler("b"), source, checkpoints, "b").start()
    until(lambda: "b" in office.shared.members, b)
    office.pass_time(a, b)
    until(lambda: len(work.seen) == 4, a, b)
    until(lambda: len(a.engine.busy.failing) == 1, a)
    a.stop()
    office.pass_time(b)
    until(lambda: len(work.seen) == 6, b)
    b.stop()
    assert {stream: work.of(stream) for stream in ("S0", "S1")} == {"S0": [0, 1, 2], "S1": [0, 1, 2]}
    assert checkpoints.positions() == {"0": 3, "1": 3}


def test_what_is_parked_is_handed_over_and_tried_again_by_who_has_it(office: Office, work: Work, url: str) -> None:
    source, checkpoints = MemorySource("0", "1"), DatabaseCheckpoints(url, "shared")
    source.append("waits", [0], tranche="1")
    for number in range(2):
        source.append("parks", [number], tranche="1")

    def fail(stream: str, _: Any) -> Any:
        if stream == "waits":
            return retry(3600)
        raise ValueError("no")

    rules = Rules(attempts_max=1, exhausted="park")
    given: dict[str, Any] = {"checkpoints": checkpoints, "rules": rules, "clock": office.clock, "commit_s": 3600}
    a = Local(fail, source, leases=Leases(office, "a"), name="a", **given).start()
    until(lambda: "parks" in a.engine.parking.streams and checkpoints.positions(), a)
    until(lambda: not a._committing.is_busy, a)
    assert not checkpoints.parked()
    b = local(office, work.handler("b"), source, checkpoints, "b", rules=rules).start()
    until(lambda: "b" in office.shared.members, b)
    office.pass_time(a, b)
    until(lambda: work.of("waits") == [0], b)
    assert [(each.index, each.next) for each in checkpoints.parked()] == [(0, 2)]
    checkpoints.ask("parks", "retry")
    until(lambda: work.of("parks") == [0, 1], b)
    b.wait_until_caught_up(SOON_S)
    a.stop()
    b.stop()
    assert not checkpoints.parked()
