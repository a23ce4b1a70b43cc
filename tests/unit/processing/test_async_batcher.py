import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from penstock.errors import BadOutcome, OutcomeUnknown
from penstock.processing.batcher import AsyncBatcher, AsyncKeyedBatcher
from tests.failing import has_code


class StandingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still but where there is nothing to do: then it goes on to what is due."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


def in_standing_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in such a loop."""

    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        with asyncio.Runner(loop_factory=StandingLoop) as runner:
            runner.run(asyncio.wait_for(test(*args, **options), 7200))

    return run


class Target:
    """Takes calls, each of which lasts until it is let go on."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.go_on = asyncio.Semaphore(0)
        self.running = 0

    async def __call__(self, items: list[Any]) -> list[str]:
        assert self.running == 0, "two calls at once"
        self.running += 1
        self.calls.append(items)
        try:
            await self.go_on.acquire()
        finally:
            self.running -= 1
        if "poison" in items:
            raise ValueError("poison")
        return [f"{item}!" for item in items]


async def begin(*work: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Begin, and return when each waits."""
    tasks = [asyncio.create_task(each) for each in work]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


@in_standing_loop
async def test_items_of_a_running_call_go_together_into_the_next() -> None:
    target = Target()
    batcher = AsyncBatcher[Any](target, each=True, most=2)
    tasks = await begin(*(batcher.submit(item) for item in (0, 1)))
    assert target.calls == [[0, 1]]
    tasks += await begin(*(batcher.submit(item) for item in (2, "poison", 4)))
    for _ in range(3):
        target.go_on.release()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [*map(str, found)] == ["0!", "1!", "poison", "poison", "4!"]
    assert target.calls == [[0, 1], [2, "poison"], [4]]


@in_standing_loop
async def test_call_lingers_by_the_loops_clock_unless_it_is_full() -> None:
    calls: list[tuple[float, list[int]]] = []
    loop = asyncio.get_running_loop()

    async def call(items: list[int]) -> int:
        calls.append((loop.time(), items))
        return len(items)

    batcher = AsyncBatcher[int](call, linger_seconds=60, most=3)
    assert await asyncio.gather(*map(batcher.submit, range(3))) == [3, 3, 3]
    later = await begin(batcher.submit(3))
    await asyncio.sleep(50)
    assert await batcher.submit(4) == 2
    assert await later[0] == 2
    assert calls == [(0.0, [0, 1, 2]), (60.0, [3, 4])]


@in_standing_loop
async def test_cancelled_waiter_takes_its_item_back_unless_it_is_in_a_call() -> None:
    target = Target()
    batcher = AsyncBatcher[Any](target)
    [in_call] = await begin(batcher.submit(1))
    waiting, other = await begin(batcher.submit(2), batcher.submit(3))
    in_call.cancel()
    waiting.cancel()
    target.go_on.release()
    target.go_on.release()
    assert await other == ["3!"]
    assert target.calls == [[1], [3]]
    target.go_on.release()
    assert await batcher.submit(4) == ["4!"], "it can be used on"


@in_standing_loop
async def test_cancellation_inside_a_call_fails_its_items_and_the_next_call_is_made() -> None:
    async def call(items: list[str]) -> str:
        if "first" in items:
            waited_for = asyncio.ensure_future(asyncio.sleep(60))
            waited_for.cancel()
            await waited_for
        return f"{items}"

    batcher = AsyncBatcher[Any](call, most=2)
    waiting = await begin(*map(batcher.submit, ("first", "beside", "second")))
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in done] == [OutcomeUnknown, OutcomeUnknown, str]
    assert done[2] == "['second']"


@in_standing_loop
async def test_cancellation_of_the_calling_task_leaves_no_other_waiting() -> None:
    target = Target()
    batcher = AsyncBatcher[Any](target)
    waiting = await begin(batcher.submit(1), batcher.submit(2))
    waiting += await begin(batcher.submit(3))
    assert target.calls == [[1, 2]]
    assert batcher._calls is not None
    batcher._calls.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in done] == [asyncio.CancelledError] * 3
    target.go_on.release()
    assert await batcher.submit(4) == ["4!"], "it can be used on"


@in_standing_loop
async def test_withdrawn_item_causes_no_lingering() -> None:
    ended: list[float] = []
    loop = asyncio.get_running_loop()
    batcher = AsyncBatcher[Any](Target(), linger_seconds=60, idle=lambda: ended.append(loop.time()))
    [waiting] = await begin(batcher.submit(1))
    waiting.cancel()
    await asyncio.sleep(60)
    assert ended == [0.0]


@in_standing_loop
async def test_results_of_another_number_are_refused() -> None:
    async def call(_: list[int]) -> list[int]:
        return []

    with pytest.raises(BadOutcome, check=has_code("bad-results")):
        await AsyncBatcher[int](call, each=True).submit(1)


@in_standing_loop
async def test_call_without_a_coroutine_is_made_once() -> None:
    written: list[list[int]] = []
    assert await AsyncBatcher[int](written.append).submit(1) is None  # type: ignore[arg-type]
    assert written == [[1]]


@in_standing_loop
async def test_many_tasks_have_each_item_written_once_in_their_order() -> None:
    written: list[tuple[int, int]] = []
    running = 0

    async def call(items: list[tuple[int, int]]) -> list[tuple[int, int]]:
        nonlocal running
        assert running == 0, "two calls at once"
        running += 1
        await asyncio.sleep(0.001 * len(items))
        running -= 1
        written.extend(items)
        return items

    batcher = AsyncBatcher[tuple[int, int]](call, each=True, most=5, linger_seconds=0.002)

    async def worker(number: int) -> None:
        for turn in range(50):
            assert await batcher.submit((number, turn)) == (number, turn)

    await asyncio.gather(*map(worker, range(12)))
    assert sorted(written) == [(number, turn) for number in range(12) for turn in range(50)]
    for number in range(12):
        assert [turn for who, turn in written if who == number] == list(range(50))


def test_batcher_belongs_to_one_event_loop_while_it_works() -> None:
    async def call(items: list[str]) -> str:
        if items == ["first"]:
            with pytest.raises(RuntimeError, match="at work in another event loop: give each loop one, or threads a"):
                await asyncio.to_thread(asyncio.run, asyncio.wait_for(batcher.submit("within"), 300))
        return f"{items}"

    batcher = AsyncBatcher(call)
    for item in ("first", "second"):  # Each in a loop of its own.
        assert asyncio.run(batcher.submit(item)) == f"['{item}']"


@in_standing_loop
async def test_each_key_has_its_own_gate_for_as_long_as_its_call_runs() -> None:
    calls: list[tuple[str, list[int]]] = []
    go_on = asyncio.Event()

    async def call(key: str, items: list[int]) -> str:
        calls.append((key, items))
        await go_on.wait()
        return key

    batcher = AsyncKeyedBatcher[str, int](call)
    first, second = await begin(batcher.submit("a", 1), batcher.submit("b", 2))
    first.cancel()
    [third] = await begin(batcher.submit("a", 3))
    assert calls == [("a", [1]), ("b", [2])], "the call goes on, though nobody waits for it"
    assert len(batcher) == 2
    go_on.set()
    assert [await second, await third] == ["b", "a"]
    await asyncio.sleep(0)
    assert (len(batcher), calls[2:]) == (0, [("a", [3])])
