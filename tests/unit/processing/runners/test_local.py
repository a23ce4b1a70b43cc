import asyncio
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from penstock.core.groups.parking import Request
from penstock.errors import (
    BadParameter,
    HandlerFailed,
    OutcomeUnknown,
    ProcessorUnhealthy,
    Unavailable,
)
from penstock.processing.batcher import AsyncBatcher
from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints
from penstock.processing.engine.parking import Place
from penstock.processing.engine.rules import Backoff, Health, Rules
from penstock.processing.outcomes import retry
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.memory import MemorySource
from tests.processing.office import SOON_SECONDS, until

QUICK = Backoff(first_seconds=0.01, max_seconds=0.05)


@pytest.fixture
def source() -> MemorySource:
    return MemorySource()


def append_events(source: MemorySource, streams: int, count: int) -> None:
    for number in range(count):
        source.append(f"S{number % streams}", [number])


def keep_in(into: list[int]) -> Callable[[str, Sequence[Any]], None]:
    return lambda _, events: into.extend(event.data for event in events)


def test_arriving_events_are_handled_and_committed(source: MemorySource) -> None:
    seen: list[int] = []
    checkpoints = MemoryCheckpoints()
    append_events(source, 3, 30)
    with LocalProcessor(keep_in(seen), source, checkpoints=checkpoints) as running:
        running.wait_until_caught_up(SOON_SECONDS)
        assert sorted(seen) == [*range(30)]
        assert checkpoints.positions() == {"0": 30}
        source.append("S1", [30])
        running.wait_until_caught_up(SOON_SECONDS)

    assert sorted(seen) == [*range(31)]


class Unanswering(MemoryCheckpoints):
    """Checkpoints whose database does not answer so many times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.left = failures

    def commit(self, advance: Advance) -> None:
        if self.left:
            self.left -= 1
            raise OutcomeUnknown(reason="no answer")
        super().commit(advance)


def test_repeated_commit_failures_are_logged_less_and_less_often(
    source: MemorySource, caplog: pytest.LogCaptureFixture
) -> None:
    append_events(source, 3, 30)
    checkpoints = Unanswering(failures=9)
    with LocalProcessor(keep_in([]), source, checkpoints=checkpoints, stats_interval=None) as running:
        running.wait_until_caught_up(SOON_SECONDS)

    told = [each.getMessage() for each in caplog.records if "no answer" in each.getMessage()]
    beginnings = ["a commit has", "2 commits in a row have", "4 commits in a row have", "8 commits in a row have"]
    assert [each.partition(" failed, ")[0] for each in told] == beginnings
    assert checkpoints.positions() == {"0": 30}


def test_hanging_handler_holds_back_its_own_stream_alone(source: MemorySource) -> None:
    seen: list[int] = []
    let_go = threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "S0":
            let_go.wait(SOON_SECONDS)
        seen.extend(event.data for event in events)

    append_events(source, 4, 40)
    with LocalProcessor(handle, source, rules=Rules(concurrency=1, timeout=0.05, backoff=QUICK)) as running:
        until(lambda: len(seen) == 30)
        assert running.engine.busy.failing["S0"].tag == "timeout"
        let_go.set()
        running.wait_until_caught_up(SOON_SECONDS)

    assert sorted(seen) == [*range(40)]


def test_stop_waits_for_running_calls_alone(source: MemorySource) -> None:
    has_begun, let_go = threading.Event(), threading.Event()
    called: list[str] = []

    def handle(stream: str, events: Sequence[Any]) -> None:
        called.append(stream)
        has_begun.set()
        let_go.wait(SOON_SECONDS)

    for stream in ("S0", "S1", "S2"):
        source.append(stream, [1])
    checkpoints = MemoryCheckpoints()
    running = LocalProcessor(handle, source, checkpoints=checkpoints, rules=Rules(concurrency=1)).start()
    assert has_begun.wait(SOON_SECONDS)
    threading.Timer(0.1, let_go.set).start()
    running.stop()

    assert called == ["S0"]
    assert checkpoints.positions() == {"0": 1}


def test_error_that_ends_a_processor_is_raised_to_waiters_and_by_stop(source: MemorySource) -> None:
    def handle(stream: str, events: Sequence[Any]) -> None:
        raise ValueError("broken")

    source.append("S0", [1])
    running = LocalProcessor(handle, source, rules=Rules(attempts_max=2, backoff=QUICK)).start()
    with pytest.raises(HandlerFailed, match="has failed 2 times") as caught:
        running.wait_until_caught_up(SOON_SECONDS)
    assert repr(caught.value.__cause__) == "ValueError('broken')"
    with pytest.raises(HandlerFailed):
        running.stop()


@pytest.mark.parametrize("state", ["failing", "stalled"])
def test_stream_without_progress_for_too_long_ends_the_processor(source: MemorySource, state: str) -> None:
    def handle(_: str, __: Sequence[Any]) -> Any:
        if state == "failing":
            raise ValueError("it cannot be")
        return retry(0.01)

    source.append("S1", [0])
    rules = Rules(
        backoff=Backoff(first_seconds=0.01, max_seconds=0.01),
        health=Health(failing_seconds_max=0.3, stalled_seconds_max=0.3),
    )
    running = LocalProcessor(handle, source, rules=rules)
    running.start()
    with pytest.raises(ProcessorUnhealthy, match=rf"S1 {state} at 0 for "):
        running.wait_until_caught_up(300)
    with pytest.raises(ProcessorUnhealthy):
        running.stop()


def test_signal_during_a_wait_ends_the_processor_with_a_commit() -> None:
    program = """
import signal, sys, threading
from penstock.processing import LocalProcessor
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.sources import MemorySource
signal.signal(signal.SIGALRM, lambda *_: sys.exit())
source, checkpoints = MemorySource(), MemoryCheckpoints()
source.append("S0", [1])
def handle(*_): signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    with LocalProcessor(handle, source, checkpoints=checkpoints) as running:
        running.wait()
finally:
    print(checkpoints.positions())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=SOON_SECONDS
    )

    assert done.stdout == "{'0': 1}\n"


def test_failed_last_commit_is_logged_as_the_last(
    source: MemorySource, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.runners.background.LAST_PAUSE_SECONDS", 0.01)
    append_events(source, 1, 1)
    with LocalProcessor(keep_in(seen := []), source, checkpoints=Unanswering(failures=99), commit_interval=60.0):
        until(lambda: seen)
    [last] = [each for each in caplog.messages if "the last commit has failed" in each]
    assert "what is done since comes again: it is unknown whether the request was carried out: no answer" in last


def test_slow_last_commit_is_not_repeated_for_long(source: MemorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.runners.background.LAST_SECONDS_MAX", 0.0)
    append_events(source, 1, 1)
    checkpoints = Unanswering(failures=99)
    with LocalProcessor(keep_in(seen := []), source, checkpoints=checkpoints, commit_interval=60.0):
        until(lambda: bool(seen) and checkpoints.left == 98)  # It commits where it begins.
    assert checkpoints.left == 97


def test_snapshot_is_renewed_while_events_come_and_while_none_come(source: MemorySource) -> None:
    with LocalProcessor(keep_in([]), source) as running:
        for number in range(10):  # An event wakes the loop at any time between its looks.
            source.append("S", [number])
        until(lambda: running.snapshot.handled == 10)
        last = running.snapshot
        assert last.is_running
        until(lambda: running.snapshot.age_seconds() < last.age_seconds())


@pytest.mark.parametrize("change", ["clear", "pop", "reverse"])
def test_handler_that_changes_its_span_fails_and_holds_back_its_own_stream_alone(
    source: MemorySource, change: str
) -> None:
    seen: list[int] = []
    changing = ["S1"]

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream in changing:
            changing.remove(stream)
            getattr(events, change)()
        keep_in(seen)(stream, events)

    append_events(source, 3, 30)
    with LocalProcessor(handle, source, rules=Rules(backoff=QUICK)) as running:
        running.wait_until_caught_up(SOON_SECONDS)
    assert sorted(seen) == [*range(30)]
    assert running.engine.busy.failures == {"AttributeError": 1}


def test_permanently_refused_commit_ends_the_processor(source: MemorySource) -> None:
    class Refusing(MemoryCheckpoints):
        def commit(self, advance: Advance) -> None:  # noqa: ARG002 - Whatever it is.
            raise BadParameter(parameter="group", value="?", allowed="another")

    append_events(source, 1, 1)
    running = LocalProcessor(keep_in([]), source, checkpoints=Refusing(), commit_interval=0.01).start()
    assert running.wait(SOON_SECONDS)
    with pytest.raises(BadParameter, match="group is"):
        running.stop()


def test_coroutine_beyond_its_time_is_cancelled_and_its_stream_retried(source: MemorySource) -> None:
    seen: list[int] = []
    cancelled = threading.Event()

    async def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "S1" and not cancelled.is_set():
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        keep_in(seen)(stream, events)

    append_events(source, 3, 30)
    with LocalProcessor(handle, source, rules=Rules(backoff=QUICK, timeout=0.05)) as running:
        running.wait_until_caught_up(SOON_SECONDS)
    assert cancelled.is_set()
    assert sorted(seen) == [*range(30)]
    assert running.engine.busy.failures == {"timeout": 1}


@pytest.mark.parametrize("kind", ["itself", "all that have not begun"])
def test_coroutine_cancelled_by_others_has_failed_and_its_stream_is_retried(source: MemorySource, kind: str) -> None:
    seen: list[int] = []
    cancelled: list[asyncio.Task[Any] | None] = []

    async def handle(stream: str, events: Sequence[Any]) -> None:
        if not cancelled:
            current = asyncio.current_task()
            cancelled.extend([current] if kind == "itself" else asyncio.all_tasks() - {current})
            for task in cancelled:
                assert task is not None
                task.cancel()
            await asyncio.sleep(0)
        keep_in(seen)(stream, events)

    append_events(source, 3, 30)
    with LocalProcessor(handle, source, rules=Rules(backoff=QUICK)) as running:
        running.wait_until_caught_up(SOON_SECONDS)
    assert sorted(seen) == [*range(30)]
    assert running.engine.busy.failures == Counter({"CancelledError": len(cancelled)} if cancelled else {})


@pytest.mark.parametrize("is_awaited", [False, True], ids=["thread", "coroutine"])
def test_late_success_of_a_call_counts_and_is_not_repeated(source: MemorySource, is_awaited: bool) -> None:
    called, is_noted = list[int](), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        called.extend(event.index for event in events)
        assert is_noted.wait(SOON_SECONDS)

    async def awaited(stream: str, events: Sequence[Any]) -> None:
        called.extend(event.index for event in events)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.to_thread(is_noted.wait, SOON_SECONDS)

    append_events(source, 1, 3)
    rules = Rules(backoff=QUICK, timeout=0.05)
    with LocalProcessor(awaited if is_awaited else handle, source, rules=rules) as running:
        until(lambda: bool(running.engine.busy.failures))
        is_noted.set()
        running.wait_until_caught_up(SOON_SECONDS)
    assert called == [0, 1, 2]
    assert running.engine.busy.failures == {"timeout": 1}


def test_coroutines_that_run_too_long_at_the_end_are_cancelled(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.runners.local.STOP_TIMEOUT", 0.1)
    began, cleaned = threading.Event(), threading.Event()

    async def handle(stream: str, events: Sequence[Any]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # What it does in its end is waited for.
            cleaned.set()

    checkpoints = MemoryCheckpoints()
    append_events(source, 1, 3)
    with LocalProcessor(handle, source, checkpoints=checkpoints, rules=Rules(attempts_max=1)):
        assert began.wait(SOON_SECONDS)
    assert cleaned.is_set()
    assert checkpoints.positions() == {"0": 0}


def test_batcher_whose_call_was_running_at_the_end_can_be_used_by_the_next_processor() -> None:
    calls: list[list[int]] = []

    async def write(items: list[int]) -> None:
        calls.append(items)
        if len(calls) == 1:
            await asyncio.Event().wait()

    batcher = AsyncBatcher(write)

    async def handle(stream: str, events: Sequence[Any]) -> None:
        await batcher.submit(events[0].data)

    for number in range(2):
        source = MemorySource()
        source.append("S0", [number])
        running = LocalProcessor(handle, source, rules=Rules(timeout=0.05, attempts_max=1)).start()
        with suppress(HandlerFailed):
            running.wait_until_caught_up(SOON_SECONDS)
        with suppress(HandlerFailed):
            running.stop()
    assert calls == [[0], [1]]


@pytest.mark.parametrize("kind", ["goes on when cancelled", "blocks the loop", "thread"])
def test_calls_without_end_delay_the_stop_for_a_limited_time_and_are_named(
    source: MemorySource, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.processing.runners.local.STOP_TIMEOUT", 0.4)
    for module in ("local", "workers"):
        monkeypatch.setattr(f"penstock.processing.runners.{module}.CANCEL_TIMEOUT", 0.2, raising=False)
    began, is_over = threading.Event(), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        began.set()
        is_over.wait(SOON_SECONDS)

    async def awaited(stream: str, events: Sequence[Any]) -> None:
        began.set()
        while kind == "goes on when cancelled" and not is_over.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(SOON_SECONDS)
        is_over.wait(SOON_SECONDS)

    source.append("S0", [0])
    checkpoints = MemoryCheckpoints()
    running = LocalProcessor(handle if kind == "thread" else awaited, source, checkpoints=checkpoints).start()
    assert began.wait(SOON_SECONDS)
    running.stop()
    is_over.set()
    if kind != "thread":
        running._workers._thread.join(SOON_SECONDS)  # type: ignore[union-attr]
    assert checkpoints.positions() == {"0": 0}
    assert "calls that were not done within 0.4 s come again, and go on unheard where they cannot be" in caplog.text


def test_all_events_can_be_required_only_from_the_beginning_on(source: MemorySource) -> None:
    checkpoints = MemoryCheckpoints()
    append_events(source, 2, 6)
    with LocalProcessor(keep_in([]), source, checkpoints=checkpoints, rules=Rules(require_all=True)) as running:
        running.wait_until_caught_up(SOON_SECONDS)
    again = LocalProcessor(keep_in([]), source, checkpoints=checkpoints, rules=Rules(require_all=True)).start()
    assert again.wait(SOON_SECONDS)
    with pytest.raises(BadParameter, match=r"require_all is True; allowed: False where it goes on at 6 of 0: "):
        again.stop()


def test_coroutines_run_beside_each_other_up_to_their_limit(source: MemorySource) -> None:
    active, most = 0, 0
    seen: list[int] = []
    all_are_there = asyncio.Event()

    async def handle(stream: str, events: Sequence[Any]) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        if active == 8:
            all_are_there.set()
        if events[0].index:  # The first are short: so calls are handed out ahead.
            await asyncio.wait_for(all_are_there.wait(), SOON_SECONDS)
            await asyncio.sleep(0.01)
        active -= 1
        keep_in(seen)(stream, events)

    append_events(source, 20, 60)
    with LocalProcessor(handle, source, rules=Rules(concurrency=8, events_per_call=1)) as running:
        running.wait_until_caught_up(SOON_SECONDS)
    assert sorted(seen) == [*range(60)]
    assert most == 8


class HeldCheckpoints(MemoryCheckpoints):
    """Holds the first commit of something parked until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held, self.may_go_on = threading.Event(), threading.Event()

    def commit(self, advance: Advance) -> None:
        if advance.parked and not self.is_held.is_set():
            self.is_held.set()
            assert self.may_go_on.wait(SOON_SECONDS)
        super().commit(advance)


def test_event_of_a_parked_stream_that_comes_during_its_commit_waits_with_it(source: MemorySource) -> None:
    checkpoints, is_broken = HeldCheckpoints(), True
    seen: list[int] = []
    is_taken_in = threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "S1" and is_broken:
            raise ValueError("broken")
        keep_in(seen)(stream, events)
        is_taken_in.set()

    rules = Rules(attempts_max=1, exhausted="park")
    source.append("S1", [0])
    with LocalProcessor(handle, source, checkpoints=checkpoints, rules=rules, commit_interval=0.001) as running:
        assert checkpoints.is_held.wait(SOON_SECONDS)
        source.append("S1", [1, 2])
        source.append("S2", [3])
        assert is_taken_in.wait(SOON_SECONDS)
        checkpoints.may_go_on.set()
        running.wait_until_caught_up(SOON_SECONDS)
    assert checkpoints.positions() == {"0": 3}
    assert [(each.index, each.next, each.events) for each in checkpoints.parked()] == [(0, 3, 3)]

    is_broken = False
    checkpoints.ask("S1", "retry")
    with LocalProcessor(handle, source, checkpoints=checkpoints, rules=rules, commit_interval=0.001):
        until(lambda: not checkpoints.parked())
    assert sorted(seen) == [0, 1, 2, 3]


class Away(MemorySource):
    """Does not say what is behind."""

    def behind(self, positions: Mapping[str, Any]) -> Mapping[str, int | None]:  # noqa: ARG002 - It says nothing.
        threading.Event().wait()
        return {}


def test_wait_has_a_timeout_where_the_source_does_not_answer() -> None:
    with (
        LocalProcessor(keep_in([]), Away()) as running,
        pytest.raises(Unavailable, match=r"within 0\.05 s: behind is what its source would say, which does not answer"),
    ):
        running.wait_until_caught_up(0.05)


def test_first_position_is_kept_before_anything_is_handled(source: MemorySource) -> None:
    is_kept = threading.Event()

    class Told(MemoryCheckpoints):
        def commit(self, advance: Advance) -> None:
            super().commit(advance)
            is_kept.set()

    checkpoints = Told()
    with LocalProcessor(keep_in([]), source, checkpoints=checkpoints, commit_interval=1e6):
        assert is_kept.wait(SOON_SECONDS)
        assert checkpoints.positions() == {"0": 0}


def test_wait_in_vain_names_the_streams_without_progress_and_why(source: MemorySource) -> None:
    def handle(stream: str, events: Sequence[Any]) -> Any:
        if stream == "S5":
            return retry(0.01, tag="not quiet yet")
        raise ValueError(f"no such\ncustomer: {stream}")

    append_events(source, 6, 6)
    with LocalProcessor(handle, source, rules=Rules(backoff=QUICK)) as running:
        until(lambda: running.snapshot.busy["failing"].streams == 5 and running.snapshot.busy["stalled"].streams == 1)
        with pytest.raises(Unavailable) as told:
            running.wait_until_caught_up(0.05)
    assert re.match(
        r"not available now: the processor has not caught up within 0\.05 s: behind is 0: 6"
        r"(; S[0-4] fails at 0 for \d s: ValueError: no such customer: S[0-4]){3}; 2 more streams are failing"
        r"; S5 stalls at 0 for \d s: not quiet yet$",
        told.value.detail,
    )


def test_wait_in_vain_names_the_parked_streams_that_are_retried(source: MemorySource) -> None:
    is_mended, let_go = threading.Event(), threading.Event()
    checkpoints = MemoryCheckpoints()

    def handle(stream: str, events: Sequence[Any]) -> None:
        if not is_mended.is_set():
            raise ValueError("broken")
        let_go.wait(SOON_SECONDS)

    append_events(source, 5, 5)
    rules = Rules(attempts_max=1, exhausted="park", concurrency=1)
    with LocalProcessor(handle, source, checkpoints=checkpoints, rules=rules, commit_interval=0.01) as running:
        running.wait_until_caught_up(SOON_SECONDS)
        is_mended.set()
        for number in range(5):
            checkpoints.ask(f"S{number}", "retry")
        until(lambda: len(running.engine.parking.retried) == 5)
        with pytest.raises(Unavailable, match=r"behind is what is parked and tried again: S., S., S., 2 more"):
            running.wait_until_caught_up(0.05)
        let_go.set()
        running.wait_until_caught_up(SOON_SECONDS)
    assert not checkpoints.parked()


class HeldRetries(MemoryCheckpoints):
    """Commits what has come of a retried stream only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held, self.may_go_on, self.looks = threading.Event(), threading.Event(), 0

    def commit(self, advance: Advance) -> None:
        if any(parked is None or parked.attempts > 1 for parked in advance.parked.values()):
            self.is_held.set()
            assert self.may_go_on.wait(SOON_SECONDS)
        super().commit(advance)

    def requests(self) -> Mapping[Place, Request]:
        self.looks += 1
        return super().requests()


@pytest.mark.parametrize("is_mended", [True, False], ids=["handled", "parked again"])
def test_wait_until_caught_up_returns_once_the_results_of_retries_are_committed(
    source: MemorySource, is_mended: bool
) -> None:
    checkpoints, calls = HeldRetries(), 0
    is_retried, may_end = threading.Event(), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            is_retried.set()
            assert may_end.wait(SOON_SECONDS)
        if calls == 1 or not is_mended:
            raise ValueError("broken")

    source.append("S1", [0])
    rules = Rules(attempts_max=1, exhausted="park")
    left = "behind is what has come of parked streams, which is not committed yet"
    with (
        ThreadPoolExecutor(1) as threads,
        LocalProcessor(handle, source, checkpoints=checkpoints, rules=rules, commit_interval=0.001) as running,
    ):
        try:
            running.wait_until_caught_up(SOON_SECONDS)
            checkpoints.ask("S1", "retry")
            waiting = threads.submit(running.wait_until_caught_up, SOON_SECONDS)
            assert is_retried.wait(SOON_SECONDS)
            looks = checkpoints.looks
            until(lambda: checkpoints.looks >= looks + 4)  # What was asked is known for sure.
            may_end.set()
            assert checkpoints.is_held.wait(SOON_SECONDS)
            with pytest.raises(Unavailable, match=left):
                running.wait_until_caught_up(0.2)
            assert not waiting.done()
        finally:
            may_end.set()
            checkpoints.may_go_on.set()
        waiting.result(SOON_SECONDS)
        assert [each.attempts for each in checkpoints.parked()] == ([] if is_mended else [2])
        assert checkpoints.requests() == {}


def test_wait_in_vain_names_failed_commits_and_why(source: MemorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.runners.background.LAST_PAUSE_SECONDS", 0.0)
    append_events(source, 1, 3)
    with LocalProcessor(keep_in([]), source, checkpoints=Unanswering(failures=10**9), commit_interval=0.01) as running:
        until(lambda: running.snapshot.commits_failing >= 2)
        with pytest.raises(Unavailable) as told:
            running.wait_until_caught_up(0.05)
    assert re.search(
        r"behind is 0: 3; the last \d+ commits have failed: it is unknown whether .* was carried out: no answer$",
        told.value.detail,
    )


def test_wait_in_vain_names_a_running_commit(source: MemorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.runners.processor.LONG_SECONDS", 0.0)
    locked = threading.Event()

    class Locked(MemoryCheckpoints):
        def commit(self, advance: Advance) -> None:
            assert locked.wait(SOON_SECONDS)
            super().commit(advance)

    append_events(source, 1, 3)
    with LocalProcessor(keep_in([]), source, checkpoints=Locked()) as running:
        try:
            until(lambda: running.snapshot.commit_seconds is not None)
            with pytest.raises(Unavailable, match=r"behind is 0: 3; a commit has not been answered for \d+ s\. Repeat"):
                running.wait_until_caught_up(0.05)
        finally:
            locked.set()
        running.wait_until_caught_up(SOON_SECONDS)
        until(lambda: running.snapshot.commit_seconds is None)
