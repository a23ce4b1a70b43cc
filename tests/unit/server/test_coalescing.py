"""What many requests need is computed or read by one of them at a time, and not too often."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.server import coalescing
from penstock.server.coalescing import CachedFigure, CoalescedRead

pytestmark = pytest.mark.anyio


class Computed:
    """Counts how often the figure was computed; the figure is that count."""

    def __init__(self) -> None:
        self.times = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> int | None:
        self.times += 1
        await self.may_end.wait()
        return self.times


async def test_requests_that_come_together_share_one_computation() -> None:
    computed = Computed()
    figure = CachedFigure(computed, timeout=60)
    assert await asyncio.gather(*(figure.get() for _ in range(9))) == [1] * 9


async def test_figure_is_kept_for_its_interval() -> None:
    kept, fresh = CachedFigure(Computed(), interval=600, timeout=60), CachedFigure(Computed(), timeout=60)
    assert [await kept.get() for _ in range(3)] == [1, 1, 1]
    before = await fresh.get()
    while await fresh.get() == before:
        pass


async def test_request_that_waits_too_long_gets_the_figure_before_and_starts_no_other_computation() -> None:
    computed = Computed()
    figure = CachedFigure(computed, timeout=0.01, kept_seconds=600)
    computed.may_end.clear()
    assert [await figure.get() for _ in range(3)] == [None, None, None]
    assert computed.times == 1
    computed.may_end.set()
    while await figure.get() is None:
        pass
    computed.may_end.clear()
    while computed.times == 1:
        assert await figure.get() == 1
    assert [await figure.get() for _ in range(3)] == [1, 1, 1]
    assert computed.times == 2
    computed.may_end.set()


async def test_figure_that_takes_long_is_computed_for_a_small_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, times = 0.0, 0
    monkeypatch.setattr(coalescing, "time", SimpleNamespace(monotonic=lambda: now))

    async def compute() -> int:
        nonlocal now, times
        now, times = now + 3, times + 1
        return times

    figure = CachedFigure(compute, interval=5, timeout=60)
    found = []
    for _ in range(120):
        found.append(await figure.get())
        now += 1
    assert found[-1] == times == 3


async def test_figure_that_cannot_be_computed_is_tried_again_at_once_and_the_old_one_is_dropped() -> None:
    answers: list[int | None] = [1, None, None, 2]

    async def compute() -> int | None:
        return answers.pop(0)

    figure = CachedFigure(compute, timeout=60, kept_seconds=600)
    found = []
    while answers:
        found.append(await figure.get())
    assert found[found.index(None) :] == [None, None, 2]


async def test_late_figure_is_missing_unless_the_one_before_may_be_shown() -> None:
    computed = Computed()
    figure = CachedFigure(computed, timeout=0.01)
    assert await figure.get() == 1
    computed.may_end.clear()
    while computed.times == 1:
        await figure.get()
    assert await figure.get() is None
    computed.may_end.set()


async def test_requests_that_come_together_share_one_read() -> None:
    computed = Computed()
    shared = CoalescedRead(computed, 0.0)
    await asyncio.gather(*(shared.wait() for _ in range(9)))
    assert computed.times == 1


async def test_requests_that_come_during_a_read_share_a_later_one() -> None:
    computed = Computed()
    computed.may_end.clear()
    shared = CoalescedRead(computed, 0.0)
    first = asyncio.ensure_future(shared.wait())
    for _ in range(100):
        await asyncio.sleep(0)
    assert computed.times == 1
    later = [asyncio.ensure_future(shared.wait()) for _ in range(9)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert computed.times == 1, "one at a time"

    computed.may_end.set()
    await asyncio.gather(first, *later)
    assert computed.times == 2


async def test_no_read_begins_within_the_interval_of_the_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    own = SimpleNamespace(**vars(asyncio) | {"sleep": sleep})
    monkeypatch.setattr(coalescing, "asyncio", own)
    monkeypatch.setattr(coalescing, "time", SimpleNamespace(monotonic=lambda: 7.0))
    shared = CoalescedRead(Computed(), 5.0)
    await shared.wait()
    await shared.wait()
    assert slept == [0.0, 5.0]


async def test_failure_of_a_read_is_that_of_all_who_wait_for_it_and_of_no_others() -> None:
    failures = [OSError("the database is away")]

    async def read() -> None:
        if failures:
            raise failures.pop()

    shared = CoalescedRead(read, 0.0)
    found = await asyncio.gather(shared.wait(), shared.wait(), return_exceptions=True)
    assert [type(each) for each in found] == [OSError, OSError]
    await shared.wait()


async def test_read_goes_on_for_others_if_who_asked_first_has_left() -> None:
    computed = Computed()
    shared = CoalescedRead(computed, 0.0)
    first, second = (asyncio.ensure_future(shared.wait()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert computed.times == 1
