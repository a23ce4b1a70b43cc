"""Parked streams: any name and text, retries and drops while a position is held, and events that are gone."""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any

import pytest

from penstock.errors import EventsLost
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules, StreamEvent, Transactional
from penstock.processing.checkpoints import Advance, PositionMove
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine import Backoff
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import retry
from penstock.processing.sources import FileSource, MemorySource
from penstock.processing.sources.source import ReadRequest
from tests.processing.office import until

ONCE = Rules(attempts_max=1, exhausted="park", backoff=Backoff(first_seconds=0.001))
LONG = "".join(Random(3).choices(ascii_letters, k=9000))
"""More than PostgreSQL has room for in an index, and cannot be compressed."""
NAMES = ["a\0b", "\ud800", "back\\slash", "\\0000", LONG, LONG + "2"]
named = pytest.mark.parametrize("name", NAMES, ids=["nul", "surrogate", "backslash", "escaped", "long", "longer"])


@named
def test_stream_of_any_name_is_parked_retried_and_dropped(database_url: str, name: str) -> None:
    source, checkpoints = MemorySource(), DatabaseCheckpoints(database_url, "mailer")
    done, is_mended = list[str](), False

    def handle(stream: str, _: Sequence[Any]) -> None:
        if stream == name and not is_mended:
            raise ValueError("no")
        done.append(stream)

    def handle_many(_: Any, spans: Sequence[Any]) -> list[Exception | None]:
        return [ValueError("no") if span.stream == name else None for span in spans]

    def run(handler: Any) -> None:
        given = {} if isinstance(handler, Transactional) else {"checkpoints": checkpoints}
        InlineProcessor(handler, source, rules=ONCE, **given).drain(advance=True)

    source.append(name, [1])
    source.append("other", [1])
    run(handle)
    assert (done, checkpoints.positions()) == (["other"], {"0": 2})
    assert [each.stream for each in checkpoints.parked()] == [name]
    is_mended = True
    checkpoints.ask(name, "retry")
    assert checkpoints.requests() == {(name, "0"): "retry"}
    run(handle)
    assert done == ["other", name]
    assert not checkpoints.parked()

    source.append(name, [2, 3])
    run(Transactional(database_url, handle_many, checkpoints))
    assert [each.stream for each in checkpoints.parked()] == [name]
    assert checkpoints.positions() == {"0": 3}
    checkpoints.move({"0": 2})
    checkpoints.ask(name, "skip", reason="nobody wants it")
    [dropped, _] = checkpoints.history()
    assert (dropped.reason or "").endswith(" is skipped from 0 up to 3: nobody wants it")
    run(handle)
    assert (done, checkpoints.requests()) == (["other", name], {})


@named
def test_stream_of_any_name_may_be_ahead(database_url: str, name: str) -> None:
    checkpoints = DatabaseCheckpoints(database_url, "mailer")
    ahead = Advance({"0": PositionMove(None, 0)}, ahead={(name, "0"): 7, ("other", "0"): 8})
    checkpoints.commit(ahead)
    assert checkpoints.holds(ahead)
    assert checkpoints.take_over(["0"], "me") == {"0": {name: 7, "other": 8}}
    checkpoints.commit(Advance({}, ahead={(name, "0"): None}))
    assert checkpoints.take_over(["0"], "me") == {"0": {"other": 8}}


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "é" * 50_000_000], ids=["nul", "surrogate", "huge"])
@pytest.mark.parametrize("where", ["text", "tag"])
def test_failure_with_any_text_or_tag_is_parked(database_url: str, odd: str, where: str) -> None:
    source, checkpoints = MemorySource(), DatabaseCheckpoints(database_url, "mailer")

    def handle(_: str, __: Sequence[Any]) -> None:
        raise ValueError(odd if where == "text" else "no")

    def classify(_: Exception) -> str | None:
        return odd if where == "tag" else None

    source.append("S1", [1])
    with LocalProcessor(handle, source, checkpoints=checkpoints, classify=classify, rules=ONCE) as running:
        running.wait_until_caught_up(300)
    [parked] = checkpoints.parked()
    assert (parked.detail if where == "text" else parked.tag)[:2] == {"a": "a\\", "\ud800": "\\u", "é": "éé"}[odd[0]]


class Asked(DatabaseCheckpoints):
    """Counts how often it is asked what is wanted of parked streams."""

    asked = 0

    def requests(self) -> Mapping[Any, Any]:
        found = super().requests()
        self.asked += 1
        return found


def park_one(database_url: str) -> Asked:
    """Have the first of two streams parked; return the checkpoints."""
    checkpoints = Asked(database_url, "mailer")

    def handle(stream: str, _: Sequence[Any]) -> None:
        if stream == "S1":
            raise ValueError("no")

    InlineProcessor(handle, two_streams(), checkpoints=checkpoints, rules=ONCE).drain(advance=True)
    assert [each.stream for each in checkpoints.parked()] == ["S1"]
    checkpoints.asked = 0
    return checkpoints


def two_streams(source: MemorySource | None = None) -> MemorySource:
    source = source or MemorySource()
    source.append("S1", [1])
    source.append("S2", [1])
    return source


def test_requests_are_polled_about_twice_a_second_while_idle(database_url: str) -> None:
    checkpoints = park_one(database_url)

    with LocalProcessor(lambda *_: None, two_streams(), checkpoints=checkpoints, rules=ONCE) as running:
        running.wait_until_caught_up(300)
        asked, began = checkpoints.asked, time.monotonic()
        until(lambda: checkpoints.asked >= asked + 4)

    assert time.monotonic() - began > 1.0, "it takes longer on a slow machine, and is never asked more often"


def test_wait_until_caught_up_includes_retries_beside_a_late_source(
    database_url: str,
) -> None:
    checkpoints = park_one(database_url)
    looked = threading.Event()

    class Late(MemorySource):
        def tranches(self) -> Collection[str]:
            looked.wait(20)
            return super().tranches()

    class Looking(Asked):
        def requests(self) -> Mapping[Any, Any]:
            if self.asked >= 5:
                looked.set()
            return super().requests()

    checkpoints.ask("S1", "retry")
    done: list[str] = []
    source, looking = two_streams(Late()), Looking(database_url, "mailer")
    with LocalProcessor(lambda stream, _: done.append(stream), source, checkpoints=looking, rules=ONCE) as running:
        running.wait_until_caught_up(300)

    assert done == ["S1"]
    assert not checkpoints.parked()


class ByTranche(MemorySource):
    """A source whose indices are those of its tranche."""

    is_dense = is_by_stream = False


def test_retried_stream_is_not_repeated_while_its_position_is_held(database_url: str) -> None:
    checkpoints, done, is_mended = DatabaseCheckpoints(database_url, "mailer"), list[tuple[str, int]](), False

    def handle(_: Any, spans: Sequence[Any]) -> list[Any]:
        if is_mended:
            done.extend((span.stream, event.index) for span in spans for event in span.events if span.stream == "S")
        return [retry(1000) if span.stream == "F" else None if is_mended else ValueError("no") for span in spans]

    def begin() -> InlineProcessor:
        source = ByTranche()
        source.deliver([StreamEvent("F", 0, "k", b"{}"), StreamEvent("S", 1, "k", b"{}")])
        source.deliver([StreamEvent("S", 2, "k", b"{}")])
        return InlineProcessor(Transactional(database_url, handle, checkpoints), source, rules=ONCE)

    running = begin()
    running.drain()
    assert [each.stream for each in checkpoints.parked()] == ["S"]
    is_mended = True
    checkpoints.ask("S", "retry")
    running.advance(1)
    running.drain()
    assert (done, checkpoints.parked()) == ([("S", 1), ("S", 2)], [])
    begin().drain()
    assert done == [("S", 1), ("S", 2)]


@pytest.mark.parametrize("is_dense", [False, True], ids=["of tranches", "dense"])
@pytest.mark.parametrize("by", ["one that runs", "the next one"])
def test_dropped_stream_is_never_handled_while_its_position_is_held(database_url: str, by: str, is_dense: bool) -> None:
    checkpoints, seen = DatabaseCheckpoints(database_url, "mailer"), list[tuple[str, int]]()

    def handle(stream: str, events: Sequence[Any]) -> Any:
        seen.extend((stream, event.index) for event in events)
        if stream == "S" and not is_mended:
            raise ValueError("no")
        return retry(1000) if stream == "F" else None

    def begin() -> InlineProcessor:
        source = MemorySource() if is_dense else ByTranche()
        source.deliver([StreamEvent("F", 0, "k", b"{}"), StreamEvent("S", first, "k", b"{}")])
        source.deliver([StreamEvent("S", first + 1, "k", b"{}"), StreamEvent("G", other, "k", b"{}")])
        if is_mended:
            source.deliver([StreamEvent("S", last, "k", b"{}")])
        return InlineProcessor(handle, source, checkpoints=checkpoints, rules=ONCE)

    first, other, last = (0, 0, 2) if is_dense else (1, 3, 4)
    is_mended = False
    running = begin()
    running.drain()
    assert [(each.stream, each.index, each.next) for each in checkpoints.parked()] == [("S", first, first + 2)]
    checkpoints.ask("S", "skip")
    if by == "one that runs":
        running.advance(1)
        running.drain()
        assert not checkpoints.parked()
    is_mended = True
    for _ in range(2):
        seen.clear()
        begin().drain()
        assert not checkpoints.parked()
        assert sorted(seen) == [("F", 0), ("G", other), ("S", last)]
    assert checkpoints.positions() == {"0": 0}


def test_stream_parked_in_a_removed_tranche_blocks_no_wait(database_url: str) -> None:
    checkpoints = park_one(database_url)
    checkpoints.ask("S1", "retry")
    elsewhere = MemorySource("other")
    elsewhere.append("S3", [1], tranche="other")
    done: list[str] = []
    with LocalProcessor(
        lambda stream, _: done.append(stream), elsewhere, checkpoints=checkpoints, rules=ONCE
    ) as running:
        running.wait_until_caught_up(300)
    assert done == ["S3"]
    assert checkpoints.requests() == {}
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.tag, parked.detail) == ("S1", "gone", "its source has no 0 any more")


class Feeds(MemorySource):
    """A stream that lies in several tranches has indices of its own in each, as in a hub's feeds."""

    is_dense = False


def test_stream_parked_in_two_tranches_is_tried_once_for_each_request(database_url: str) -> None:
    source, checkpoints = Feeds("a", "b"), DatabaseCheckpoints(database_url, "mailer")
    tried: list[int] = []

    def fail(_: str, events: Sequence[Any]) -> None:
        tried.append(events[0].index)
        raise ValueError("no")

    running = InlineProcessor(fail, source, checkpoints=checkpoints, rules=ONCE)
    for tranche in ("a", "b"):
        source.deliver([StreamEvent("S", 0, "k", b"{}")], tranche=tranche)
        running.drain(advance=True)
    for asked in (1, 2):
        checkpoints.ask("S", "retry")
        for _ in range(20):
            running.step()
        assert len(tried) == 1 + asked
        assert checkpoints.requests() == {}
    assert [(each.tranche, each.attempts) for each in checkpoints.parked()] == [("a", 3), ("b", 0)]


def test_events_parked_behind_a_drop_stay_parked(database_url: str) -> None:
    source, checkpoints = MemorySource(), DatabaseCheckpoints(database_url, "mailer")

    def fail(*_: Any) -> None:
        raise ValueError("no")

    running = InlineProcessor(fail, source, checkpoints=checkpoints, rules=ONCE)
    source.append("S", [0])
    running.drain(advance=True)
    checkpoints.ask("S", "skip")
    running.step()
    for number in (1, 2):  # The first comes before it is kept that those before it are dropped.
        source.append("S", [number])
        running.step()
    running.drain(advance=True)
    assert [(each.index, each.next) for each in checkpoints.parked()] == [(1, 3)]
    assert checkpoints.requests() == {}


class Forgetting(MemorySource):
    """Cannot give again what it gave, after a while."""

    is_gone = False

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a tranche has from an earlier position on, unless it is gone."""
        if self.is_gone:
            raise EventsLost(event_type="order", partition=0, lost=1, reason="retention has removed them")
        return super().reread(tranche, want)


@pytest.mark.parametrize("runner", [InlineProcessor, LocalProcessor])
def test_parked_stream_whose_events_are_gone_fails_alone_with_the_reason(
    runner: type[InlineProcessor | LocalProcessor], sqlite_url: str
) -> None:
    source, checkpoints, handled = Forgetting(), DatabaseCheckpoints(sqlite_url, "mailer"), list[str]()

    def handle(stream: str, _: object) -> None:
        if stream == "P":
            raise ValueError("no")
        handled.append(stream)

    def run() -> None:
        if runner is InlineProcessor:
            InlineProcessor(handle, source, checkpoints=checkpoints, rules=ONCE).drain()
            return
        with LocalProcessor(handle, source, checkpoints=checkpoints, rules=ONCE) as running:
            running.wait_until_caught_up(300)

    source.append("P", [1])
    run()
    source.is_gone = True
    checkpoints.ask("P", "retry")
    source.append("R", [1])
    run()

    [kept] = checkpoints.parked_at()
    assert (kept.parked.index, kept.parked.next, kept.parked.attempts, kept.parked.tag) == (0, 1, 2, "gone")
    assert "retention has removed them" in kept.parked.detail
    assert kept.request is None, "it was tried: whoever wants it again asks again"
    assert handled == ["R"]
    checkpoints.ask("P", "skip")
    run()
    assert not checkpoints.parked()


@pytest.mark.parametrize("when", ["while it runs", "before it runs"])
def test_stream_parked_in_a_removed_file_fails_alone(tmp_path: Path, when: str) -> None:
    for number in range(2):
        (tmp_path / f"{number}.ndjson").write_text('{"id": "x"}\n{"id": "y"}\n')
    checkpoints, is_mended = MemoryCheckpoints(), threading.Event()
    handled: list[tuple[str, str]] = []

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "x" and not is_mended.is_set():
            raise ValueError("broken")
        handled.extend((stream, Path(event.tranche).name) for event in events)

    def begin() -> LocalProcessor:
        source = FileSource(f"{tmp_path}/*.ndjson", stream=["id"])
        return LocalProcessor(handle, source, checkpoints=checkpoints, rules=ONCE, commit_interval=0.01)

    def lose() -> None:
        (tmp_path / "1.ndjson").unlink()
        is_mended.set()
        checkpoints.ask("x", "retry")

    with begin() as running:
        running.wait_until_caught_up(300)
        if when == "while it runs":
            lose()
            running.wait_until_caught_up(300)
    if when == "before it runs":
        lose()
        with begin() as running:
            running.wait_until_caught_up(300)
    assert ("x", "0.ndjson") in handled
    [parked] = checkpoints.parked()
    assert (parked.stream, Path(parked.tranche).name, parked.tag) == ("x", "1.ndjson", "gone")
    checkpoints.ask("x", "skip")
    with begin() as running:
        running.wait_until_caught_up(300)
        (tmp_path / "2.ndjson").write_text('{"id": "x"}\n')
        until(lambda: handled[-1] == ("x", "2.ndjson"))
    assert not checkpoints.parked()
