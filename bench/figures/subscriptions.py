"""How fast subscriptions are sent, and how soon."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from itertools import count
from statistics import median, quantiles
from typing import Any

import msgspec
import psycopg

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.load.program import Program
from bench.logs import make_feed, make_log
from bench.measure import in_turn
from bench.place import Place

PARTITIONS = 8
BATCH = 1000
LONG = 5
WINDOW = 100_000
MANY = 100
SPREAD = 64
PATIENCE_SECONDS = 30
SETTLED_SECONDS = 3.0
PER_SECOND = 100
DATABASES = ("SQLite", "PostgreSQL")
LOADS = ("transactions", "rows looked at")
_numbers = count()


def asked(port: int, method: str, path: str, body: Any = None) -> Any:
    """Ask a hub, and return what it says."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        sent = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        said = response.read()
    finally:
        connection.close()
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: {response.status} {said.decode()}")
    return msgspec.json.decode(said) if said else None


def subscribed(port: int, read_from: str) -> str:
    """Create one more subscription of the feed; return its id."""
    group = f"group {next(_numbers)}"
    given = {"owning_application": "bench", "event_types": [FEED], "consumer_group": group, "read_from": read_from}
    found: str = asked(port, "POST", "/subscriptions", given)["id"]
    return found


@figure("subscription", "consumers")
def subscription(place: Place, scale: Scale) -> Iterable[Row]:
    """One subscription over 8 partitions, batches of 1000, each committed, beside the raw feed."""
    # A consumer reads on and on: that its stream has to be opened first is not to count for much.
    events = LONG * scale.events // (PARTITIONS * BATCH) * PARTITIONS * BATCH
    for kind in DATABASES:
        url = place.database(kind)
        make_log(url, events, PARTITIONS)
        with ExitStack() as stack:
            hub = stack.enter_context(place.hub(url))
            given = {"port": hub.port, "feed": FEED, "page": scale.page, "events": events}
            feed = stack.enter_context(Program("bench.load.read", **given, form="v1", first="_first"))
            consumer = {"port": hub.port, "batch": BATCH, "window": WINDOW}
            each = stack.enter_context(Program("bench.load.consume", **consumer, gathers=False))
            gathered = stack.enter_context(Program("bench.load.consume", **consumer, gathers=True))

            def consumed(program: Program, port: int = hub.port) -> float:
                done = program(subscription=subscribed(port, "begin"), events=events)
                return float(done["rate"])

            def fed(program: Program) -> float:
                return float(program(seconds=scale.seconds)["rate"])

            sides = {
                "feed": partial(fed, feed),
                "each": partial(consumed, each),
                "gathered": partial(consumed, gathered),
            }
            rounds = in_turn(sides, scale.rounds)
        place.drop(url)
        beside = rate(rounds.median("feed"))
        for side, what, target in (
            ("each", "every batch committed by a request of its own", Target(">=", 0.5)),
            ("gathered", "all that has come in 20 ms committed by one request", Target(">=", 0.5)),
        ):
            row = f"{kind}: {what}, beside the raw feed"
            yield Row(row, rate(rounds.median(side)), beside, rounds.ratio(side, "feed"), target)


@figure("subscriptions-latency", "consumers")
def subscriptions_latency(place: Place, scale: Scale) -> Iterable[Row]:
    """A hundred subscriptions of one event type at 100 events/s, from an event's commit to each of them having it."""
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(1 if scale.quick else 3):
        for kind in DATABASES:
            url = place.database(kind)
            make_feed(url)
            with place.hub(url) as hub:
                ids = [subscribed(hub.port, "end") for _ in range(MANY)]
                with (
                    Program("bench.load.consume_many", port=hub.port, subscriptions=ids, flush=5) as consumers,
                    Program("bench.load.publish_paced", port=hub.port, feed=FEED) as publisher,
                ):
                    _follow(consumers, publisher, range(PER_SECOND), len(ids))  # Warms up.
                    numbers = range(PER_SECOND, PER_SECOND + int(PER_SECOND * scale.seconds * 4))
                    sent, seen = _follow(consumers, publisher, numbers, len(ids))
            taken[f"{kind}, from its request"] += _passed(sent, seen)
            if kind == "PostgreSQL":
                taken[f"{kind}, from its commit"] += _passed(_commits(url), seen)
            place.drop(url)
    for what, each in taken.items():
        # Where the moment of the commit is not known, that of the request is, which is earlier.
        is_aim = what != "PostgreSQL, from its request"
        for name, value, most in (("median", median(each), 50), ("99th percentile", quantiles(each, n=100)[98], 250)):
            target = Target("<", most, "ms") if is_aim else None
            yield Row(f"{what}: {name} of {len(each)} deliveries", f"{value:.1f} ms", "", value, target)


def _follow(
    consumers: Program, publisher: Program, numbers: range, streams: int
) -> tuple[Mapping[str, int], Mapping[str, Sequence[int]]]:
    """Publish events of these numbers; return when each set out, and when it had come to each of so many streams."""
    consumers.start(last=numbers[-1])
    sent = publisher(first=numbers[0], count=len(numbers), per_second=PER_SECOND)["at"]
    seen = consumers.result()["at"]
    missing = [number for number in sent if len(seen.get(number, ())) != streams]
    if missing:
        raise RuntimeError(f"events that have not come to each stream once: {missing[:10]}")
    return sent, {number: seen[number] for number in sent}


def _passed(began: Mapping[str, int], seen: Mapping[str, Sequence[int]]) -> list[float]:
    """Return how many milliseconds each delivery took."""
    return [(at - began[number]) / 1e6 for number, times in seen.items() for at in times]


def _commits(url: str) -> Mapping[str, int]:
    """Return by its number when each event was committed, as PostgreSQL notes it, on this machine's other clock."""
    ahead = time.time_ns() - time.monotonic_ns()
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT data::jsonb ->> 'order_id', extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM penstock_event"
        ).fetchall()
    return {str(int(number)): int(at * 1_000_000_000) - ahead for number, at in found}


@figure("rebalance", "consumers")
def rebalance(place: Place, scale: Scale) -> Iterable[Row]:
    """Another consumer of 64 partitions, all committing promptly, from its joining to having its half."""
    for kind in DATABASES:
        url = place.database(kind)
        make_feed(url, SPREAD)
        with place.hub(url) as hub:
            taken = [_joined(hub.port) for _ in range(scale.rounds)]
        place.drop(url)
        yield Row(f"{kind}: median", f"{median(taken):.2f} s", "", median(taken), Target("<=", 2, "s"))


def _joined(port: int) -> float:
    """Return how many seconds it takes from asking for a stream until nobody waits for a partition."""
    subscription_id = subscribed(port, "end")
    given = {"port": port, "subscription": subscription_id}
    with (
        Program("bench.load.publish_paced", port=port, feed=FEED) as publishing,
        Program("bench.load.consume_promptly", **given) as first,
        Program("bench.load.consume_promptly", **given) as second,
    ):
        first()
        publishing.start(first=0, count=500, per_second=100)
        time.sleep(1)
        began = time.monotonic()
        stream = second()["stream"]
        while _shares(port, subscription_id).get(stream) != SPREAD // 2:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise RuntimeError(f"after {PATIENCE_SECONDS:g} s: {_shares(port, subscription_id)}")
        taken = time.monotonic() - began
        publishing.result()
    return taken


def _shares(port: int, id: str) -> Counter[str]:
    [item] = asked(port, "GET", f"/subscriptions/{id}/stats")["items"]
    return Counter(each["stream_id"] for each in item["partitions"] if each["state"] == "assigned")


@figure("idle-subscriptions", "consumers")
def idle_subscriptions(place: Place, scale: Scale) -> Iterable[Row]:
    """What the database is asked while streams wait for events that do not come, with few streams and with many."""
    few, many = (5, 50) if scale.quick else (10, 500)
    url = place.postgres()
    make_feed(url)
    with place.hub(url) as hub, ExitStack() as stack:
        asked_by = {}
        begun = 0
        for count_ in (few, many):
            ids = [subscribed(hub.port, "end") for _ in range(count_ - begun)]
            given = {"port": hub.port, "subscriptions": ids, "flush": 2}
            stack.enter_context(Program("bench.load.consume_many", **given))
            begun = count_
            time.sleep(SETTLED_SECONDS)
            asked_by[count_] = _load(url, 4.0 if scale.quick else 20.0)
    place.drop(url)
    for what, most, least, target in zip(LOADS, asked_by[many], asked_by[few], (Target("<=", 1.1), None), strict=True):
        row = f"PostgreSQL: {what} with {many} streams, beside {few}"
        yield Row(row, rate(most, "a second"), rate(least, "a second"), most / least, target)


def _load(url: str, seconds: float) -> Sequence[float]:
    """Return how many of `LOADS` the database has seen in a second; a statement alone is a transaction."""

    def seen() -> Sequence[int]:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT xact_commit, tup_returned FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert found is not None
        return found

    before = seen()
    time.sleep(seconds)
    return [(now - then) / seconds for now, then in zip(seen(), before, strict=True)]
