"""Limits of use, by a clock that is moved by hand."""

import asyncio
import math

import pytest

from penstock.core.access import Caller
from penstock.errors import HubUnavailable, PenstockError, TooManyRequests
from penstock.server import limits
from penstock.server.limits import (
    BURST_SECONDS,
    LARGE_BYTES,
    PAUSE_SECONDS_MAX,
    SHARED_SECONDS,
    TURNS,
    WORK_SHARE,
    Limiter,
    Quota,
    RequestUsage,
    UsageLimits,
)

GREEDY, MODEST = Caller("service", "greedy"), Caller("service", "modest")


class Clock:
    """Seconds that pass by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limiter(clock: Clock, *given: str, proxies: tuple[str, ...] = ()) -> Limiter:
    return Limiter(UsageLimits().replace(given), proxies, clock)


def count_admitted(limiter: Limiter, caller: Caller, attempts: int = 100) -> int:
    """Return how many of *attempts* requests at once are not refused."""
    admitted = 0
    for _ in range(attempts):
        try:
            limiter.begin(caller).end()
        except TooManyRequests:
            return admitted
        admitted += 1
    return admitted


def test_caller_has_its_rate_and_no_other_pays_for_it(clock: Clock) -> None:
    limited = limiter(clock, "requests=10")
    burst = pytest.approx(10 * BURST_SECONDS, abs=1)

    assert count_admitted(limited, GREEDY) == burst
    assert count_admitted(limited, MODEST) == burst
    clock.now += 1
    assert count_admitted(limited, GREEDY) == 10
    clock.now += 3_600
    assert count_admitted(limited, GREEDY) == burst, "a pause earns no more than a burst"


def test_limit_that_is_given_twice_is_refused() -> None:
    assert UsageLimits().replace(["requests=1", "total-requests=2"]).total.requests == 2
    with pytest.raises(ValueError, match="total-bytes-in is given twice"):
        UsageLimits().replace(["total-bytes-in=1", "bytes-in=1", "total-bytes-in=1"])


def test_refusal_names_the_limit_and_the_seconds_after_which_a_repeat_succeeds(clock: Clock) -> None:
    limited = limiter(clock, "bytes-out=1MB")
    limited.begin(GREEDY).send(5_500_000)

    with pytest.raises(TooManyRequests) as caught:
        limited.begin(GREEDY)

    assert caught.value.fields == {"limit": "bytes-out", "allowed": 1_000_000, "retry_after": 4}
    clock.now += caught.value.fields["retry_after"]
    limited.begin(GREEDY)


@pytest.mark.parametrize("limit", ["total-requests=1", "total-bytes-in=10kB"])
def test_limit_of_all_together_refuses_everybody_as_unavailable(clock: Clock, limit: str) -> None:
    limited = limiter(clock, limit)
    for _ in range(3):
        usage = limited.begin(GREEDY)
        usage.receive(10_000)
        usage.end()

    with pytest.raises(HubUnavailable, check=lambda error: error.code == "hub-busy") as caught:
        limited.begin(MODEST)

    assert caught.value.limit == limit.partition("=")[0]
    clock.now += caught.value.fields["retry_after"]
    limited.begin(MODEST)


def test_bytes_beyond_the_limit_wait_for_as_long_as_they_take(clock: Clock) -> None:
    usage = limiter(clock, "bytes-out=1MB").begin(GREEDY)

    assert usage.send(2_000_000) == 0, "a burst"
    assert usage.send(500_000) == pytest.approx(0.5)
    clock.now += 0.5
    assert usage.send(250_000) == pytest.approx(0.25)
    assert usage.send(100_000_000) == PAUSE_SECONDS_MAX


def test_small_pieces_count_together_and_at_the_end_of_the_request(clock: Clock) -> None:
    limited = limiter(clock, "bytes-out=10kB", "bytes-in=10kB")
    usage = limited.begin(GREEDY)

    assert [usage.send(LARGE_BYTES // 2) for _ in range(3)] == [0, pytest.approx(4.55, abs=0.01), 0]
    usage.end()
    with pytest.raises(TooManyRequests, check=lambda error: error.fields["retry_after"] == 8):
        limited.begin(GREEDY)
    other = limited.begin(MODEST)
    assert [other.receive(LARGE_BYTES // 2) for _ in range(2)] == [0, pytest.approx(4.55, abs=0.01)]


def test_streams_count_until_their_request_ends(clock: Clock) -> None:
    limited = limiter(clock, "streams=2")
    first, second, third = (limited.begin(GREEDY) for _ in range(3))
    first.open_stream()
    second.open_stream()
    second.open_stream()

    with pytest.raises(TooManyRequests, check=lambda error: error.fields["limit"] == "streams"):
        third.open_stream()
    limited.begin(MODEST).open_stream()
    third.end()
    second.end()
    second.end()
    limited.begin(GREEDY).open_stream()


def test_connections_count_by_address_and_those_of_a_proxy_in_all(clock: Clock) -> None:
    limited = limiter(clock, "connections=1", "total-connections=4", proxies=("10.0.0.7",))

    def find_refused(address: str) -> str | None:
        refusal: PenstockError | None = limited.open_connection(address)
        return refusal and refusal.fields["limit"]

    assert [find_refused("192.0.2.1") for _ in range(2)] == [None, "connections"]
    assert [find_refused("10.0.0.7") for _ in range(3)] == [None, None, None]
    assert find_refused("192.0.2.2") == "total-connections"
    limited.close_connection("192.0.2.1")
    assert [find_refused("192.0.2.2") for _ in range(2)] == [None, "total-connections"]
    assert limited.connections == 4


def test_addresses_of_one_ipv6_network_share_their_limits(clock: Clock) -> None:
    limited = limiter(clock, "connections=1")

    assert limited.open_connection("2001:db8::1") is None
    assert limited.open_connection("2001:db8::2") is not None
    assert limited.open_connection("2001:db8:0:1::1") is None


def test_requests_of_a_trusted_proxy_have_no_limit_of_their_own(clock: Clock) -> None:
    limited = limiter(clock, "requests=1", "streams=1", proxies=("10.0.0.7",))
    for _ in range(10):
        limited.begin("10.0.0.7").open_stream()

    limited.begin("192.0.2.1").open_stream()
    with pytest.raises(TooManyRequests):
        limited.begin("192.0.2.1").open_stream()


def test_memory_of_callers_is_bounded_and_keeps_those_with_streams(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CALLERS_MAX", 100)
    limited = limiter(clock, "streams=1")
    limited.begin(GREEDY).open_stream()
    for number in range(1_000):
        limited.begin(f"192.0.2.{number}")

    assert len(limited._usages) <= 100
    with pytest.raises(TooManyRequests):
        limited.begin(GREEDY).open_stream()


@pytest.mark.parametrize(
    "given",
    [
        "",
        "requests",
        "requests=",
        "requests=0",
        "requests=-1",
        "requests=1.5",
        "requests=1MB",
        "bytes-in=1mb",
        "speed=1",
    ],
)
def test_limit_that_is_not_written_as_one_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="must"):
        UsageLimits().replace([given])


def test_default_limits_can_be_lifted() -> None:
    lifted = limits.DEFAULT_LIMITS.replace([f"{name}=none" for name in limits.NAMES])

    assert lifted.caller == Quota()
    assert not lifted.caller.has_rates
    assert math.isfinite(lifted.total.connections)


async def take_turn(usage: RequestUsage, size: int = 0) -> None:
    if (turn := usage.take_turn(size)) is not None:
        await turn


class Crowd:
    """Requests of one caller, each of which is in work until it is told to end."""

    def __init__(self, limited: Limiter, caller: Caller, size: int, body: int = 0) -> None:
        self._requests = [limited.begin(caller) for _ in range(size)]
        self._turns = [asyncio.ensure_future(take_turn(each, body)) for each in self._requests]

    @property
    def in_work(self) -> int:
        return sum(each.turns is not None for each in self._requests)

    def end(self, count: int, worked: float = 0.0) -> None:
        for each in [each for each in self._requests if each.turns][:count]:
            each.note_work(worked)
            each.end()

    async def cancel(self) -> None:
        for each in self._turns:
            each.cancel()
        await asyncio.wait(self._turns)


@pytest.mark.anyio
async def test_caller_that_is_alone_waits_for_no_turn(clock: Clock) -> None:
    limited = limiter(clock)
    modest = Crowd(limited, MODEST, 1)
    await asyncio.sleep(0)
    modest.end(1)
    clock.now += 2 * SHARED_SECONDS
    first = Crowd(limited, GREEDY, 1)
    await asyncio.sleep(0)
    clock.now += 2 * SHARED_SECONDS
    crowd = Crowd(limited, GREEDY, 1_000)
    await asyncio.sleep(0)

    assert (first.in_work, crowd.in_work) == (1, 1_000)


@pytest.mark.anyio
async def test_each_of_two_busy_callers_has_few_requests_in_work(clock: Clock) -> None:
    limited = limiter(clock)
    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 1_000)
    await asyncio.sleep(0)
    assert (greedy.in_work, modest.in_work) == (TURNS, 1)

    greedy.end(3)
    await asyncio.sleep(0)
    assert greedy.in_work == TURNS


@pytest.mark.anyio
async def test_all_requests_begin_once_nobody_else_is_busy(clock: Clock) -> None:
    limited = limiter(clock)
    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 1_000)
    await asyncio.sleep(0)
    modest.end(1)

    clock.now += 2 * SHARED_SECONDS
    greedy.end(1)
    await asyncio.sleep(0)

    assert greedy.in_work == 999


@pytest.mark.anyio
async def test_requests_that_are_cancelled_while_they_wait_keep_no_turn(clock: Clock) -> None:
    limited = limiter(clock)
    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 100)
    await asyncio.sleep(0)

    greedy.end(2)  # Two others have their turn, and are cancelled before they know.
    await greedy.cancel()
    greedy.end(TURNS)
    modest.end(1)
    modest, later = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 100)
    await asyncio.sleep(0)

    assert (modest.in_work, later.in_work) == (1, TURNS)


@pytest.mark.anyio
async def test_one_of_two_busy_callers_has_one_large_body_in_work_and_small_ones_beside_it(clock: Clock) -> None:
    limited = limiter(clock)
    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 3, LARGE_BYTES)
    await asyncio.sleep(0)
    small = Crowd(limited, GREEDY, 100)
    await asyncio.sleep(0)
    assert (modest.in_work, greedy.in_work, small.in_work) == (1, 1, TURNS)

    for left in (1, 1, 0):
        greedy.end(1)
        await asyncio.sleep(0)
        assert (greedy.in_work, small.in_work) == (left, TURNS)


@pytest.mark.anyio
async def test_caller_waits_while_it_has_used_more_than_its_share_of_the_time(clock: Clock) -> None:
    limited = limiter(clock)
    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, 10)
    await asyncio.sleep(0)

    clock.now += 10 * SHARED_SECONDS  # The modest caller's request is still in work.
    greedy.end(1, worked=WORK_SHARE)  # As much as its share of a second.
    greedy.end(TURNS - 1)
    await asyncio.sleep(0)
    assert (modest.in_work, greedy.in_work) == (1, 0)

    clock.now += 0.9
    await asyncio.sleep(2 * SHARED_SECONDS)
    assert greedy.in_work == 0

    clock.now += 0.1
    await asyncio.sleep(2 * SHARED_SECONDS)
    assert greedy.in_work == 2


@pytest.mark.anyio
async def test_work_of_a_caller_that_is_alone_does_not_count(clock: Clock) -> None:
    limited = limiter(clock)
    alone = Crowd(limited, GREEDY, 1)
    await asyncio.sleep(0)
    alone.end(1, worked=100.0)

    modest, greedy = Crowd(limited, MODEST, 1), Crowd(limited, GREEDY, TURNS)
    await asyncio.sleep(0)

    assert (modest.in_work, greedy.in_work) == (1, TURNS)


@pytest.mark.anyio
async def test_answer_waits_while_its_caller_has_used_more_than_its_share(clock: Clock) -> None:
    limited = limiter(clock)
    Crowd(limited, MODEST, 1)
    await asyncio.sleep(0)
    page = limited.begin(GREEDY)
    await take_turn(page)
    page.end_turn()

    assert page.send(LARGE_BYTES) == 0.0
    page.note_work(WORK_SHARE)

    assert page.send(LARGE_BYTES) == SHARED_SECONDS


def test_large_bodies_are_refused_when_there_is_no_room_and_small_ones_never(clock: Clock) -> None:
    limited = limiter(clock, "bytes-held=3MB", "total-bytes-held=4MB")
    first, second, third, other = (limited.begin(each) for each in (GREEDY, GREEDY, GREEDY, MODEST))
    for body in (first, second, third):
        body.receive(1_000_000)

    with pytest.raises(TooManyRequests, match="bytes-held=3000000"):
        first.receive(1)
    other.receive(900_000)
    with pytest.raises(HubUnavailable, match="total-bytes-held=4000000"):
        other.receive(200_000)
    limited.begin(GREEDY).receive(LARGE_BYTES - 1)

    second.end()
    first.receive(400_000)
    other.receive(200_000)


@pytest.mark.anyio
async def test_stream_needs_no_turn(clock: Clock) -> None:
    limited = limiter(clock)
    Crowd(limited, MODEST, 1)
    for _ in range(10 * TURNS):
        stream = limited.begin(GREEDY)
        await take_turn(stream)
        stream.open_stream()
        await take_turn(stream)

    assert Crowd(limited, MODEST, 1).in_work == 0
