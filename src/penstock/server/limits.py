"""Limits of use: connections, streams, requests and bytes per second, of each caller and of all together.

A caller that has used up a limit is refused with 429; if the hub has used up one of its own, everybody is, with 503.
Both answers say when to repeat the request. Answers and bodies under way are slowed down instead.

While several callers are busy, each has a few small requests and one with a large body in work at a time; its others
wait for their turn. Worker threads and the committer work for each caller at most `WORK_SHARE` of the time. So neither
a caller with a thousand connections nor one with large batches or pages keeps others from their share.
"""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import islice
from typing import Final, NamedTuple

from penstock.core.access import Caller
from penstock.errors import HubUnavailable, PenstockError, TooManyRequests

BURST_SECONDS: Final = 2.0
"""A caller that has paused may at once use what its limit allows in this time."""
BUSY_SECONDS: Final = 5
"""Retry-After of a refused connection or stream: when another one ends is not known."""
PAUSE_SECONDS_MAX: Final = 5.0
"""A piece of an answer waits no longer: consumers are given up after ten seconds."""
TURNS: Final = 8
"""While several callers are busy, so many requests of each are in work at a time, and one with a large body."""
LARGE_BYTES: Final = 64 << 10
"""A body from this size on is large."""
SHARED_SECONDS: Final = 0.25
"""A caller is busy while it has requests in work, or waiting for their turn, and so long after the last one came."""
WORK_SHARE: Final = 0.4
"""Seconds per second that worker threads and the committer use for one caller, while several callers are busy."""
WORK_BURST_SECONDS: Final = 0.05
"""A caller that has paused may use at once what its share allows in this time."""
SEND_SECONDS: Final = 1e-9
"""Processor time to send one byte."""
CALLERS_MAX: Final = 10_000
"""The use of so many callers is remembered; more only while they use something."""
_LOOKED_AT: Final = 64
_NETWORK_BITS: Final = 64
_VALUE: Final = re.compile(r"(\d{1,15})(kB|MB|GB|)", re.ASCII)
_UNITS: Final = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
TOTAL: Final = "total-"


class Quota(NamedTuple):
    """Limits of one caller, or of all callers together; infinity: not limited."""

    connections: float = math.inf
    streams: float = math.inf
    """Subscription streams, low-level streams, and reads that wait for events, at a time."""
    requests: float = math.inf
    """Per second."""
    bytes_in: float = math.inf
    """Of bodies, per second."""
    bytes_out: float = math.inf
    """Of answers, per second."""
    bytes_held: float = math.inf
    """At a time: of bodies that have come, whole or in part, and whose requests are not answered yet; and of answers
    that were made and that their clients have not taken."""

    @property
    def has_rates(self) -> bool:
        """True if a limit applies to each request."""
        return min(self.requests, self.bytes_in, self.bytes_out, self.bytes_held) < math.inf


NAMES: Final = tuple(each.replace("_", "-") for each in Quota._fields)
"""The names of the limits of each caller; those of all together begin with `TOTAL`."""


class UsageLimits(NamedTuple):
    """The limits of each caller, and those of all callers together."""

    caller: Quota = Quota()
    total: Quota = Quota()

    def replace(self, given: Iterable[str]) -> "UsageLimits":
        """Return these limits with those of *given* replaced, which have the form `NAME=VALUE`.

        Raises:
            ValueError: one has another form, or is given twice.

        >>> limits = UsageLimits().replace(["requests=100", "bytes-in=5MB", "total-connections=none"])
        >>> limits.caller.requests, limits.caller.bytes_in, limits.total.connections
        (100, 5000000, inf)
        """
        changed: dict[bool, dict[str, float]] = {False: {}, True: {}}
        for each in given:
            name, value = _parse(each)
            is_total = name.startswith(TOTAL)
            field = name.removeprefix(TOTAL).replace("-", "_")
            if field in changed[is_total]:
                raise ValueError(f"{name} is given twice: leave out all but one")
            changed[is_total][field] = value
        return UsageLimits(self.caller._replace(**changed[False]), self.total._replace(**changed[True]))


OPEN_LIMITS: Final = UsageLimits(total=Quota(connections=10_000, streams=10_000))
"""For a hub on loopback that does not authenticate callers: they all have one address."""
DEFAULT_LIMITS: Final = UsageLimits(
    Quota(
        connections=1_000,
        streams=1_000,
        requests=10_000,
        bytes_in=250 * 10**6,
        bytes_out=10**9,
        bytes_held=500 * 10**6,
    ),
    OPEN_LIMITS.total._replace(bytes_held=10**9),
)


def _parse(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals or name.removeprefix(TOTAL) not in NAMES:
        raise ValueError(f"must have the form NAME=VALUE, not {text!r}; NAME is {', '.join(NAMES)}, or {TOTAL} and one")
    if value == "none":
        return name, math.inf
    match = _VALUE.fullmatch(value)
    if match is None or not int(match[1]) or (match[2] and "bytes" not in name):
        allowed = "a number from 1 on, of bytes also with kB, MB or GB, or none"
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return name, int(match[1]) * _UNITS[match[2]]


class TokenBucket:
    """A token bucket: limits a rate, and allows bursts of up to *burst_seconds* times that rate.

    It can be overdrawn, since the size of a body is known only at its end; then it has to fill up again.
    """

    __slots__ = ("_burst_seconds", "_seconds_each", "full_at")

    def __init__(self, rate: float, burst_seconds: float = BURST_SECONDS) -> None:
        """Allow *rate* a second."""
        self._seconds_each = 1 / rate
        self._burst_seconds = burst_seconds
        self.full_at = -math.inf
        """When it is full again."""

    def take(self, amount: float, now: float) -> float:
        """Use *amount*, even if there is less; return how many seconds are left, as `seconds_left` does."""
        full_at = self.full_at
        if full_at < now:  # noqa: PLR1730 - A call would take longer than the rest.
            full_at = now
        self.full_at = full_at = full_at + amount * self._seconds_each
        return full_at - now - self._burst_seconds

    def seconds_left(self, now: float) -> float:
        """Return how many seconds it takes until something may be used; 0 or less: now.

        >>> bucket = TokenBucket(rate=10)
        >>> bucket.take(50, now=100.0), bucket.seconds_left(now=103.0)
        (3.0, 0.0)
        """
        return self.full_at - now - self._burst_seconds


class Turns:
    """A caller's requests of one size: the number in work, and the queue of those that wait for their turn."""

    __slots__ = ("in_work", "in_work_max", "waiting")

    def __init__(self, in_work_max: int) -> None:
        self.in_work_max = in_work_max
        """The most requests in work at a time, while several callers are busy."""
        self.in_work = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        """Requests that wait until others end."""


class Usage:
    """The current use of streams, bytes and rates by one caller, or by all callers together."""

    __slots__ = (
        "bytes_held",
        "bytes_in",
        "bytes_out",
        "is_busy",
        "large",
        "requests",
        "small",
        "streams",
        "timer",
        "work",
    )

    def __init__(self, quota: Quota) -> None:
        self.streams = 0
        self.bytes_held = 0
        self.small = Turns(TURNS)
        """Requests without a large body."""
        self.large = Turns(1)
        self.is_busy = False
        """Whether requests are in work, or wait for their turn."""
        self.timer: asyncio.TimerHandle | None = None
        """Starts waiting requests, if no other request of the caller is in work."""
        self.work = TokenBucket(WORK_SHARE, WORK_BURST_SECONDS)
        """Time that worker threads and the committer have used while several callers were busy, in seconds."""
        self.requests = TokenBucket(quota.requests)
        self.bytes_in = TokenBucket(quota.bytes_in)
        self.bytes_out = TokenBucket(quota.bytes_out)

    def find_used_up(self, now: float) -> tuple[str, float] | None:
        """Return the name of a rate that is used up, and the seconds until it may be used; None if none is used up."""
        latest = now + BURST_SECONDS
        if self.requests.full_at <= latest and self.bytes_in.full_at <= latest and self.bytes_out.full_at <= latest:
            return None
        seconds, name = max(
            (self.requests.seconds_left(now), "requests"),
            (self.bytes_in.seconds_left(now), "bytes-in"),
            (self.bytes_out.seconds_left(now), "bytes-out"),
        )
        return name, seconds


_LOOK_SECONDS_MIN: Final = 0.001


USAGE: Final = "penstock.usage"
"""The scope's key for the `RequestUsage` of a request; not there if nothing limits it."""
CallerKey = Caller | str
"""A caller, or the address of one where callers are not authenticated."""


class Limiter:
    """Holds callers to their limits, and the hub to its own. It is used on one event loop."""

    def __init__(
        self,
        limits: UsageLimits = OPEN_LIMITS,
        proxies: Collection[str] | Callable[[str], bool] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Apply *limits*. Addresses in *proxies* stand for many callers: limits of one caller do not apply to them."""
        self._limits = limits
        self._is_proxy = proxies if callable(proxies) else proxies.__contains__
        self.monotonic = monotonic
        """The clock, in seconds."""
        self._total = Usage(limits.total)
        self._usages: dict[CallerKey, Usage] = {}
        self._connections: dict[str, int] = {}
        self.connections = 0
        """Open connections."""
        self._has_total_rates = min(limits.total.requests, limits.total.bytes_in, limits.total.bytes_out) < math.inf
        self.has_rates = limits.caller.has_rates or limits.total.has_rates
        """Whether a request has to `begin`, and to take turns with those of other callers."""
        self._last: Usage | None = None
        """The caller of the last request."""
        self._last_at = self._other_at = -math.inf
        """When it came, and when the last one of another caller came."""
        self._busy = 0
        """The number of callers that have requests in work, or waiting for their turn."""

    # Connections.

    def open_connection(self, address: str) -> PenstockError | None:
        """Count a connection of *address*; return the error that refuses it, which is not counted then."""
        limits, key = self._limits, find_network(address)
        if self.connections >= limits.total.connections:
            return self._refuse_all("connections", BUSY_SECONDS)
        count = self._connections.get(key, 0)
        if count >= limits.caller.connections and not self._is_proxy(address):
            return self._refuse("connections", BUSY_SECONDS)
        self._connections[key] = count + 1
        self.connections += 1
        return None

    def close_connection(self, address: str) -> None:
        """Count a connection of *address* no longer."""
        key = find_network(address)
        self.connections -= 1
        self._connections[key] -= 1
        if not self._connections[key]:
            del self._connections[key]

    # Requests.

    def begin(self, caller: CallerKey) -> "RequestUsage":
        """Count a request of *caller*, or of an address.

        Raises:
            TooManyRequests: the caller has used up a limit.
            HubUnavailable: the hub has.
        """
        usage, now = self._usages.get(caller), self.monotonic()
        use = self.find(caller) if usage is None else RequestUsage(self, usage)
        if (used_up := use.caller.find_used_up(now)) is not None:
            raise self._refuse(*used_up)
        if self._has_total_rates:
            if (used_up := self._total.find_used_up(now)) is not None:
                raise self._refuse_all(*used_up)
            self._total.requests.take(1, now)
        use.caller.requests.take(1, now)
        return use

    def find(self, caller: CallerKey) -> "RequestUsage":
        """Return the use of a request of *caller*, without counting the request."""
        if isinstance(caller, str):
            if self._is_proxy(caller):
                return RequestUsage(self, Usage(Quota()), is_proxy=True)
            caller = find_network(caller)
        usage = self._usages.get(caller)
        if usage is None:
            self._forget_idle()
            usage = self._usages[caller] = Usage(self._limits.caller)
        return RequestUsage(self, usage)

    def _forget_idle(self) -> None:
        """Forget some idle callers, those first seen before others, to make room for another."""
        if len(self._usages) < CALLERS_MAX:
            return
        for key in list(islice(self._usages, _LOOKED_AT)):
            usage = self._usages.pop(key)
            if usage.streams or usage.is_busy or usage.bytes_held:
                self._usages[key] = usage

    def open_stream(self, caller: Usage, *, is_proxy: bool) -> None:
        """Count a stream of *caller*; raise as `begin` does."""
        if self._total.streams >= self._limits.total.streams:
            raise self._refuse_all("streams", BUSY_SECONDS)
        if caller.streams >= self._limits.caller.streams and not is_proxy:
            raise self._refuse("streams", BUSY_SECONDS)
        caller.streams += 1
        self._total.streams += 1

    def close_stream(self, caller: Usage) -> None:
        """Count a stream of *caller* no longer."""
        caller.streams -= 1
        self._total.streams -= 1

    # Turns.

    def begin_turn(self, caller: Usage, turns: Turns) -> asyncio.Future[None] | None:
        """Count a request of *caller* in *turns* as in work; return a future to await first if it has to wait."""
        now = self.monotonic()
        if self._last is not caller:
            self._last, self._other_at = caller, self._last_at
        self._last_at = now
        if not caller.is_busy:
            caller.is_busy = True
            self._busy += 1
        has_turn = turns.in_work < turns.in_work_max and caller.work.full_at <= now
        if not turns.waiting and (has_turn or self._may_begin(caller, turns, now)):
            turns.in_work += 1
            return None
        turn = asyncio.get_running_loop().create_future()
        turns.waiting.append(turn)
        self._begin_waiting(caller)
        return turn

    def end_turn(self, caller: Usage, turns: Turns) -> None:
        """Count a request of *caller* as in work no longer, and begin those whose turn it is."""
        turns.in_work -= 1
        self._begin_waiting(caller)

    def is_shared(self, caller: Usage, now: float) -> bool:
        """Return whether another caller than *caller* is busy, too."""
        other_at = self._other_at if self._last is caller else self._last_at
        return self._busy > caller.is_busy or now - other_at < SHARED_SECONDS

    def _may_begin(self, caller: Usage, turns: Turns, now: float) -> bool:
        has_turn = turns.in_work < turns.in_work_max and caller.work.full_at <= now + WORK_BURST_SECONDS
        return has_turn or not self.is_shared(caller, now)

    def _begin_waiting(self, caller: Usage) -> None:
        """Begin the requests of *caller* whose turn it is; if others wait for time alone, look again later."""
        small, large = caller.small, caller.large
        if small.waiting or large.waiting:
            now = self.monotonic()
            for turns in (small, large):
                while turns.waiting and self._may_begin(caller, turns, now):
                    turn = turns.waiting.popleft()
                    if not turn.done():
                        turns.in_work += 1
                        turn.set_result(None)
        if small.in_work or large.in_work:
            return
        if not (small.waiting or large.waiting):
            if caller.is_busy:
                caller.is_busy = False
                self._busy -= 1
        elif caller.timer is None:
            seconds = min(max(caller.work.seconds_left(now), _LOOK_SECONDS_MIN), SHARED_SECONDS)
            caller.timer = asyncio.get_running_loop().call_later(seconds, self._look_again, caller)

    def _look_again(self, caller: Usage) -> None:
        caller.timer = None
        self._begin_waiting(caller)

    def note_work(self, caller: Usage, seconds: float) -> None:
        """Count time that was used for *caller*, if several callers are busy."""
        now = self.monotonic()
        if self.is_shared(caller, now):
            caller.work.take(seconds, now)

    # Bytes.

    def count_bytes(self, caller: Usage, received: int, sent: int) -> None:
        """Count bytes of a body and of an answer that have come and gone."""
        now = self.monotonic()
        caller.bytes_in.take(received, now)
        caller.bytes_out.take(sent, now)
        if self._has_total_rates:
            self._total.bytes_in.take(received, now)
            self._total.bytes_out.take(sent, now)

    def receive(self, caller: Usage, size: int) -> float:
        """Count *size* bytes of a body; return how many seconds the rest of it has to wait."""
        return self._take(caller.bytes_in, self._total.bytes_in, size, self.monotonic())

    def check_held(self, caller: Usage, size: int) -> None:
        """Raise as `begin` does if there is no room for *size* more bytes of a body or an answer."""
        if self._total.bytes_held + size > self._limits.total.bytes_held:
            raise self._refuse_all("bytes-held", BUSY_SECONDS)
        if caller.bytes_held + size > self._limits.caller.bytes_held:
            raise self._refuse("bytes-held", BUSY_SECONDS)

    def has_room(self, caller: Usage) -> bool:
        """Return whether *caller*, and all together, may hold more bytes."""
        limits = self._limits
        return caller.bytes_held < limits.caller.bytes_held and self._total.bytes_held < limits.total.bytes_held

    def hold(self, caller: Usage, size: int) -> None:
        """Count *size* bytes of a body or an answer as held."""
        caller.bytes_held += size
        self._total.bytes_held += size

    def release(self, caller: Usage, size: int) -> None:
        """Count *size* bytes of a body or an answer as held no longer."""
        caller.bytes_held -= size
        self._total.bytes_held -= size

    def send(self, caller: Usage, size: int) -> float:
        """Count *size* bytes of an answer; return how many seconds the rest of it has to wait."""
        now = self.monotonic()
        seconds = self._take(caller.bytes_out, self._total.bytes_out, size, now)
        if not self.is_shared(caller, now):
            return seconds
        return max(seconds, min(caller.work.take(size * SEND_SECONDS, now), SHARED_SECONDS))

    def _take(self, one: TokenBucket, total: TokenBucket, size: int, now: float) -> float:
        seconds = one.take(size, now)
        if self._has_total_rates:
            seconds = max(seconds, total.take(size, now))
        return min(PAUSE_SECONDS_MAX, seconds) if seconds > 0 else 0.0

    def _refuse(self, name: str, seconds: float) -> PenstockError:
        allowed = getattr(self._limits.caller, name.replace("-", "_"))
        return TooManyRequests(limit=name, allowed=allowed, retry_after=math.ceil(seconds))

    def _refuse_all(self, name: str, seconds: float) -> PenstockError:
        allowed = getattr(self._limits.total, name.replace("-", "_"))
        return HubUnavailable.of("hub-busy", limit=TOTAL + name, allowed=allowed, retry_after=math.ceil(seconds))


CURRENT_USAGE: Final[ContextVar["RequestUsage | None"]] = ContextVar("penstock.usage", default=None)
"""The use of the request that the running task answers; None: nothing limits it."""


class RequestUsage:
    """The share of its caller's limits that one request uses."""

    __slots__ = ("_held", "_is_proxy", "_is_stream", "_limiter", "_received", "_sent", "caller", "turns")

    def __init__(self, limiter: Limiter, caller: Usage, *, is_proxy: bool = False) -> None:
        self._limiter = limiter
        self.caller = caller
        self._is_proxy = is_proxy
        self._is_stream = False
        self.turns: Turns | None = None
        """The requests it is counted with; None while it waits for its turn, for its client or for events."""
        self._held = 0
        self._received = 0
        """Bytes of the body that the rates do not count yet."""
        self._sent = 0

    def take_turn(self, size: int = 0) -> Awaitable[None] | None:
        """Return an awaitable that ends when the request has its turn; None if it has its turn at once.

        A stream, and a request that has its turn, need not wait. *size* is that of the body. While the request waits,
        the sender may lose its rights.
        """
        if self.turns is not None or self._is_stream:
            return None
        turns = self.caller.small if size < LARGE_BYTES else self.caller.large
        turn = self._limiter.begin_turn(self.caller, turns)
        if turn is not None:
            return self._wait_for(turn, turns)
        self.turns = turns
        return None

    def take_turn_at_once(self) -> bool:
        """Give the request its turn, if no other request has to end first; return whether it has it."""
        caller = self.caller
        if self.turns is None and (caller.small.waiting or self.is_measured):
            return False
        return self.take_turn() is None

    async def _wait_for(self, turn: asyncio.Future[None], turns: Turns) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._limiter.end_turn(self.caller, turns)
            raise
        self.turns = turns

    def end_turn(self) -> None:
        """Let another request be worked on, while this one waits for its client or for events, or has ended."""
        if self.turns is not None:
            turns, self.turns = self.turns, None
            self._limiter.end_turn(self.caller, turns)

    @property
    def is_large(self) -> bool:
        """True if the request is in work, and counts as one with a large body."""
        return self.turns is self.caller.large

    @property
    def is_measured(self) -> bool:
        """True if the request's working time counts toward its caller's share: several callers are busy."""
        return self._limiter.is_shared(self.caller, self._limiter.monotonic())

    def note_work(self, seconds: float) -> None:
        """Count time that a worker thread, or the committer, has used for the request."""
        self._limiter.note_work(self.caller, seconds)

    def open_stream(self) -> None:
        """Count the request as a stream until it ends; once, though it be called again.

        Raises:
            TooManyRequests, HubUnavailable: there are too many already.
        """
        if not self._is_stream:
            self.check_room()
            self._limiter.open_stream(self.caller, is_proxy=self._is_proxy)
            self._is_stream = True
            self.end_turn()

    def receive(self, size: int) -> float:
        """Count *size* bytes of the body, which is held; return how many seconds the rest of it has to wait.

        The rates count less than `LARGE_BYTES` when the request ends, since one look at the clock is enough then.

        Raises:
            TooManyRequests, HubUnavailable: see `hold`.
        """
        self.hold(size)
        self._received = received = self._received + size
        if received < LARGE_BYTES:
            return 0.0
        self._received = 0
        return self._limiter.receive(self.caller, received)

    def hold(self, size: int) -> None:
        """Count *size* bytes that the body takes in memory until the request ends.

        Raises:
            TooManyRequests, HubUnavailable: there is no room for them. A body that is not large always has room.
        """
        if self._held + size >= LARGE_BYTES:
            self._limiter.check_held(self.caller, size)
        self._limiter.hold(self.caller, size)
        self._held += size

    @property
    def has_room(self) -> bool:
        """True if more bytes of bodies and answers may be held."""
        return self._limiter.has_room(self.caller)

    def check_room(self, size: int = 0) -> None:
        """Check that there is room for *size* bytes of an answer.

        Raises:
            TooManyRequests, HubUnavailable: there is none.
        """
        self._limiter.check_held(self.caller, size)

    def hold_answer(self, size: int) -> None:
        """Count *size* bytes of an answer as held, even if there is no room for them."""
        self._limiter.hold(self.caller, size)
        self._held += size

    def release_answer(self, size: int) -> None:
        """Count *size* bytes of an answer, which the client has taken, as held no longer."""
        self._limiter.release(self.caller, size)
        self._held -= size

    def send(self, size: int) -> float:
        """Count *size* bytes of the answer, as `receive` does; return how many seconds the rest of it has to wait."""
        self._sent = sent = self._sent + size
        if sent < LARGE_BYTES:
            return 0.0
        self._sent = 0
        return self._limiter.send(self.caller, sent)

    def end(self) -> None:
        """Note that the request has ended."""
        if self.turns is not None:
            self.end_turn()
        if self._held:
            self._limiter.release(self.caller, self._held)
            self._held = 0
        if self._received or self._sent:
            self._limiter.count_bytes(self.caller, self._received, self._sent)
            self._received = self._sent = 0
        if self._is_stream:
            self._limiter.close_stream(self.caller)
            self._is_stream = False


@lru_cache(maxsize=CALLERS_MAX)
def find_network(address: str) -> str:
    """Return the address that limits count by: for IPv6 the network of 64 bits, which belongs to one subscriber.

    >>> find_network("192.0.2.7"), find_network("2001:db8::7"), find_network("::ffff:192.0.2.7"), find_network("")
    ('192.0.2.7', '2001:db8::', '192.0.2.7', '')
    """
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> _NETWORK_BITS << _NETWORK_BITS))
