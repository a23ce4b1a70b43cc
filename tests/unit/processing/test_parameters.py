"""Bad arguments of processors and of the testing kit are refused by their names when they are given, not in a run."""

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.processing import (
    DatabaseCheckpoints,
    FeedSource,
    HubCheckpoints,
    InlineProcessor,
    LocalProcessor,
    Projection,
    SubscriptionSource,
    Transactional,
    react,
)
from penstock.processing.batcher import AsyncBatcher, AsyncKeyedBatcher, Batcher, KeyedBatcher
from penstock.processing.changes import Changes
from penstock.processing.checkpoints import DatabaseLeases, MemoryCheckpoints, SubscriptionCheckpoints
from penstock.processing.duplicates import Duplicates
from penstock.processing.effects import Effect, effect_id
from penstock.processing.handlers import by_kind
from penstock.processing.history import Resequencer
from penstock.processing.latest import Latest
from penstock.processing.metrics import ProcessorMetrics, serve_metrics
from penstock.processing.reactions import Publisher
from penstock.processing.sources import FileSource, Filtered, IterableSource, MemorySource, PeriodicSource
from penstock.processing.targets import HubTarget, MessagedbTarget, copy_streams
from penstock.processing.together import Together
from penstock.processing.view import live
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_data_event, a_feed_event, a_new_event, an_event
from penstock.testing.live_hub import LiveHub
from penstock.testing.pgbouncer import PgBouncer
from penstock.testing.processing import (
    FaultyCheckpoints,
    FaultyHandler,
    FaultySource,
    SlowHandler,
    VirtualInline,
    Witness,
    await_caught_up,
    by_chance,
    every,
    nth,
)

HUB, DATABASE, SOURCE = "http://localhost:8080", "sqlite:///shop.db", MemorySource()
CLIENT = Client(HUB)
CHECKPOINTS = DatabaseCheckpoints(DATABASE, "mailer")
TARGET = HubTarget(CLIENT, "order.copied", "copier")
NO_TEXTS: list[Any] = [5, None, b"x", ["x"]]
NO_NUMBERS: list[Any] = ["1", None, math.nan, True, [1]]
NO_FLAGS: list[Any] = [0, 1, None, "yes", [True]]
NO_FUNCTIONS: list[Any] = [5, "x", [3]]
NO_LISTS: list[Any] = [5, "x", None]


NO_COUNTS: list[Any] = ["x", "5", 0, -1, 1.5, True, math.nan]
NO_SECONDS: list[Any] = ["x", -1, -0.5, True, math.nan, math.inf]
NO_NAMES: list[Any] = [None, "", 5, b"search", "  ", "a\nb", "a\x00", "\ud800"]
NO_SOURCES: list[Any] = ["http://me:secret@localhost:8080", None, MemorySource]
NO_CHECKPOINTS: list[Any] = ["postgresql://me:secret@host/db", MemoryCheckpoints, 5]
NO_URLS: list[Any] = ["consumer.db", "mysql://me:secret@host/db", Path("shop.db")]
A_SOURCE = r"source .*; allowed: a source, such as FeedSource\(url, '"
NO_PROCESSORS: list[Any] = [9464, None, LocalProcessor, MemorySource()]
A_PROCESSOR = "processors is .*; allowed: a processor, such as LocalProcessor"
CHANGES = Changes("order.changed", entity=["data.order_id"], order_by=["data.version"])


def handle(stream: str, events: Any) -> None: ...


async def awaited(*given: Any) -> Any: ...


def yields(items: list[int]) -> Any:
    yield from items


@dataclass
class Count:
    n: int = 0


COUNTS = Projection("counts", Count, lambda state, _: state)


def opened() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def forget(seconds: Any) -> None:
    with closing(opened()) as connection:
        Latest(connection, CHANGES, "search").forget_deleted(seconds)


def seen(**options: Any) -> Duplicates:
    with closing(opened()) as connection:
        return Duplicates(connection, "order.placed", **{"consumer": "billing", **options})


def latest(consumer: Any) -> Latest:
    with closing(opened()) as connection:
        return Latest(connection, CHANGES, consumer)


def periodic(**given: Any) -> PeriodicSource:
    return PeriodicSource(**{"crawl": list, "interval": 60, **given})


Wrong: TypeAlias = dict[str, tuple[Callable[[Any], object], list[Any]] | tuple[Callable[[Any], object], list[Any], str]]
"""By the name of a parameter, and of what: a call, values for it, and what is said of them."""
WRONG_IN_PROCESSING: Wrong = {
    "limit": (lambda value: Resequencer(limit=value), [None, *NO_COUNTS]),
    "remembered": (lambda value: Resequencer(remembered=value), [None, *NO_COUNTS]),
    "window_events": (lambda value: seen(window_events=value), [None, *NO_COUNTS]),
    "window_seconds": (lambda value: seen(window_seconds=value), [0, *NO_SECONDS]),
    "seconds": (forget, [None, *NO_SECONDS]),
    "consumer": (lambda value: seen(consumer=value), NO_NAMES),
    "consumer of changes": (latest, NO_NAMES),
    "processor": (lambda value: DatabaseCheckpoints(DATABASE, value), NO_NAMES),
    "processor of leases": (lambda value: DatabaseLeases(DATABASE, value), NO_NAMES),
    "group of positions": (
        lambda value: HubCheckpoints(HUB, value),
        ["größer", "a" * 1000, ".", *NO_NAMES],
        "allowed: (1 to [0-9]+ printable characters of ASCII|a text of)",
    ),
    "group in memory": (MemoryCheckpoints, [None, "", 5]),
    "group of a publisher": (lambda value: Publisher(CLIENT, value), ["", 5, b"mailer"]),
    "url of positions": (lambda value: HubCheckpoints(value, "mailer"), ["localhost:8080"]),
    "database of checkpoints": (
        lambda value: DatabaseCheckpoints(value, "mailer"),
        NO_URLS,
        "allowed: sqlite:///FILE, postgresql://",
    ),
    "lease_seconds": (lambda value: DatabaseLeases(DATABASE, "mailer", lease_seconds=value), [0], "more than 0"),
    "source of inline": (lambda value: InlineProcessor(handle, value), NO_SOURCES, A_SOURCE),
    "source of local": (lambda value: LocalProcessor(handle, value), NO_SOURCES, A_SOURCE),
    "source of a projection": (lambda value: COUNTS.inline(value, opened), NO_SOURCES, A_SOURCE),
    "source of a local projection": (lambda value: COUNTS.local(value, opened), NO_SOURCES, A_SOURCE),
    "source of a filter": (Filtered, NO_SOURCES, A_SOURCE),
    "source of checkpoints": (SubscriptionCheckpoints, [HUB]),
    "checkpoints of inline": (
        lambda value: InlineProcessor(handle, SOURCE, checkpoints=value),
        NO_CHECKPOINTS,
        r"DatabaseCheckpoints\(database, '",
    ),
    "checkpoints of local": (
        lambda value: LocalProcessor(handle, SOURCE, checkpoints=value),
        NO_CHECKPOINTS,
        r"DatabaseCheckpoints\(database, '",
    ),
    "checkpoints of a transaction": (
        lambda value: Transactional(DATABASE, lambda _, __: None, value),
        [HubCheckpoints(HUB, "mailer"), MemoryCheckpoints(), DATABASE],
        "allowed: DatabaseCheckpoints of the same database",
    ),
    "handle": (Together, [awaited], "handle is 'async awaited'; allowed: a function that is not async"),
    "handle of a transaction": (
        lambda value: Transactional(DATABASE, value, CHECKPOINTS),
        [awaited],
        "a function that is not async",
    ),
    "name of inline": (lambda value: InlineProcessor(handle, SOURCE, name=value), ["", 5, b"mailer"]),
    "name of local": (lambda value: LocalProcessor(handle, SOURCE, name=value), ["", 5, b"mailer"]),
    "commit_interval": (lambda value: LocalProcessor(handle, SOURCE, commit_interval=value), [-1, math.nan, "5", True]),
    "stats_interval": (lambda value: LocalProcessor(handle, SOURCE, stats_interval=value), [-1, math.nan, "5", True]),
    "event_types of a feed": (
        lambda value: FeedSource(HUB, "order.paid", value),
        [["order.placed"], ("order.placed",), 5, ""],
        "allowed: the names of event types, one after the other",
    ),
    "event_types": (lambda _: FeedSource(HUB), [None], "the name of one event type at least"),
    "start": (
        lambda value: FeedSource(HUB, "order.paid", start=value),
        ["newest", datetime(2026, 11, 20)],  # noqa: DTZ001 - That is what is refused.
        "allowed: 'earliest', 'latest', a datetime with a time zone, or a timedelta: so long ago",
    ),
    "publisher": (lambda value: react(value, handle), [CLIENT], r"Client.*; allowed: Publisher\(client\)"),
    "effects": (
        lambda value: react(Publisher(CLIENT), value),
        [handle],
        r"\(stream, events\)'; allowed: .* takes \(event\)",
    ),
    "effects of a reaction": (
        lambda value: react(Publisher(CLIENT), value),
        [awaited],
        "allowed: a function that is not async",
    ),
    "event_type of an effect": (lambda value: Effect(value, {}), [3, "", None]),
    "name of a named effect": (lambda value: Effect("mail.sent", {}, name=value), [5]),
    "key": (lambda value: Effect("mail.sent", {}, key=value), [5]),
    "processors of metrics": (lambda value: serve_metrics(0, value).__enter__(), NO_PROCESSORS, A_PROCESSOR),
    "processors that are added": (lambda value: ProcessorMetrics().add(value), NO_PROCESSORS, A_PROCESSOR),
    "processors that are there": (
        lambda value: serve_metrics(9464, *value).__enter__(),
        [()],
        r"processors is \(\); allowed: at least one: serve_metrics\(9464, processor\)",
    ),
    "host": (
        lambda value: serve_metrics(0, LocalProcessor(handle, SOURCE), host=value).__enter__(),
        ["192.0.2.1", "nowhere.invalid"],
        "host is '.*'; allowed: an address of this",
    ),
    "port of metrics": (
        lambda value: serve_metrics(value, LocalProcessor(handle, SOURCE)).__enter__(),
        [70_000, "9464"],
        "port is '?[0-9]+'?; allowed: from 0, which is any that is free, to 65535",
    ),
    "port before processors": (
        lambda value: serve_metrics(value, 9464).__enter__(),
        [LocalProcessor(handle, SOURCE)],
        "port is .*Local.*; allowed: .* to 65535; processors follow it",
    ),
    "processor of a view": (
        lambda value: live(value).__enter__(),
        [None, LocalProcessor, "mailer"],
        "allowed: a processor, such as LocalProcessor",
    ),
    "interval of a view": (
        lambda value: live(LocalProcessor(handle, SOURCE), interval=value).__enter__(),
        [0],
        "more than 0",
    ),
    "clock": (lambda value: LocalProcessor(handle, SOURCE, clock=value), [None, *NO_FUNCTIONS, lambda tick: tick]),
    "seed": (lambda value: InlineProcessor(handle, SOURCE, seed=value), NO_NUMBERS),
    "fail_on_loss": (lambda value: FeedSource(HUB, "order.placed", fail_on_loss=value), NO_FLAGS),
    "table": (lambda value: DatabaseCheckpoints(DATABASE, "mailer", table=value), ["", *NO_TEXTS]),
    "clock of checkpoints": (lambda value: DatabaseCheckpoints(DATABASE, "mailer", clock=value), NO_FUNCTIONS),
    "table of leases": (lambda value: DatabaseLeases(DATABASE, "mailer", table=value), ["", *NO_TEXTS]),
    "tranches": (MemorySource, NO_TEXTS),
    "stream": (lambda value: SOURCE.append(value, [1]), NO_TEXTS),
    "events": (lambda value: SOURCE.append("S1", value), [*NO_LISTS, {"n": 1}]),
    "kind": (lambda value: SOURCE.append("S1", [1], kind=value), NO_TEXTS),
    "tranche": (lambda value: SOURCE.append("S1", [1], tranche=value), [5, b"x"]),
    "paths": (lambda value: FileSource(value, stream=["id"]), [5, None, b"x", ["x"], "n" * 5_000]),
    "stream of a line": (lambda value: FileSource("*", stream=value), [*NO_LISTS, [], [""], [5], {"id"}]),
    "kind of a line": (lambda value: FileSource("*", stream=["id"], kind=value), [5, "x", [], [5]]),
    "follow": (lambda value: FileSource("*", stream=["id"], follow=value), NO_FLAGS),
    "batches": (IterableSource, [*NO_LISTS, {}]),
    "tranche of an iterable": (lambda value: IterableSource([], tranche=value), NO_TEXTS),
    "is_dense": (lambda value: IterableSource([], is_dense=value), NO_FLAGS),
    "crawl": (lambda value: periodic(crawl=value), [None, *NO_FUNCTIONS, lambda since: since]),
    "interval": (lambda value: periodic(interval=value), [0.5, math.inf, timedelta(0), *NO_NUMBERS]),
    "tranche of a traversal": (lambda value: periodic(tranche=value), NO_TEXTS),
    "clock of a traversal": (lambda value: periodic(clock=value), NO_FUNCTIONS),
    "elapsed": (lambda value: periodic(elapsed=value), NO_FUNCTIONS),
    "event_types of a filter": (lambda value: Filtered(SOURCE, event_types=value), [*NO_LISTS, [5]]),
    "except_kinds": (lambda value: Filtered(SOURCE, except_kinds=value), [*NO_LISTS, [None]]),
    "include_system": (lambda value: Filtered(SOURCE, include_system=value), NO_FLAGS),
    "stream of a subscription": (lambda value: SubscriptionSource(HUB, "x", stream=value), [5, "x", []]),
    "name": (lambda value: Projection(value, int, lambda state, _: state), ["a b", *NO_TEXTS]),
    "state": (lambda value: Projection("counts", value, lambda state, _: state), [None, "x", 5, int]),
    "initial": (lambda value: Projection("counts", int, lambda state, _: state, initial=value), [0, "", []]),
    "is_idempotent": (
        lambda value: Transactional(DATABASE, lambda _, __: None, CHECKPOINTS, is_idempotent=value),
        NO_FLAGS,
    ),
    "ended": (lambda value: Transactional(DATABASE, lambda _, __: None, CHECKPOINTS, ended=value), NO_FUNCTIONS),
    "call of a batcher": (Batcher, [awaited], "call is 'async awaited'; allowed: a function that is not async"),
    "call with items": (Batcher, [3], r"call is 3; allowed: a function that takes \(items\)"),
    "call with a key": (KeyedBatcher, [lambda items: items], r"allowed: a function that takes \(key, items\)"),
    **{
        f"call of {kind.__name__}": (kind, [yields], "call is 'yields, which yields'; allowed: a function that returns")
        for kind in (Batcher, AsyncBatcher)
    },
    **{
        f"call of {kind.__name__}": (
            kind,
            [partial(lambda _, __, items: (yield items), None)],
            "call is 'partial, which yields'; allowed: a function that returns",
        )
        for kind in (KeyedBatcher, AsyncKeyedBatcher)
    },
    **{
        f"linger_seconds of {kind.__name__}": (
            lambda value, kind=kind: kind(print, linger_seconds=value),
            [-1, math.nan],
        )
        for kind in (Batcher, KeyedBatcher, AsyncBatcher, AsyncKeyedBatcher)
    },
    "most": (lambda value: Batcher(print, most=value), [0]),
    "most of a keyed one": (lambda value: KeyedBatcher(print, most=value), [0]),
    "each": (lambda value: Batcher(print, each=value), NO_FLAGS),
    "clock of a batcher": (lambda value: Batcher(print, clock=value), NO_FUNCTIONS),
    "wait": (lambda value: Batcher(print, wait=value), NO_FUNCTIONS),
    "each of a keyed one": (lambda value: KeyedBatcher(print, each=value), NO_FLAGS),
    "each of an async one": (lambda value: AsyncBatcher(print, each=value), NO_FLAGS),  # type: ignore[arg-type]
    "idle": (lambda value: AsyncBatcher(print, idle=value), NO_FUNCTIONS),  # type: ignore[arg-type]
    "call": (AsyncKeyedBatcher, [None, *NO_FUNCTIONS, lambda items: items]),
    "each of an async keyed one": (lambda value: AsyncKeyedBatcher(print, each=value), NO_FLAGS),  # type: ignore[arg-type]
    "cause": (lambda value: effect_id(value, "mail"), [5, None, b"x"]),
    "name of an effect": (lambda value: effect_id("x", value), NO_TEXTS),
    "dense": (lambda value: copy_streams(TARGET, dense=value), NO_FLAGS),
    "backoff": (lambda value: copy_streams(TARGET, dense=True, backoff=value), [None, 5]),
    "random": (lambda value: copy_streams(TARGET, dense=True, random=value), [5, lambda: 0.5]),
    "client": (lambda value: HubTarget(value, "order.copied", "copier"), [None, HUB]),
    "event_type": (lambda value: HubTarget(CLIENT, value, "copier"), ["", *NO_TEXTS]),
    "group": (lambda value: HubTarget(CLIENT, "order.copied", value), ["", *NO_TEXTS]),
    "url": (MessagedbTarget, ["localhost", "sqlite:///x.db", *NO_TEXTS]),
    "schema": (lambda value: MessagedbTarget("postgresql://localhost/x", schema=value), ["", *NO_TEXTS]),
    "name of a stream": (lambda value: MessagedbTarget("postgresql://localhost/x", name=value), [None, *NO_FUNCTIONS]),
    "handlers": (by_kind, [*NO_LISTS, {"a": 5}]),
    "otherwise": (lambda value: by_kind({"a": handle}, otherwise=value), [*NO_FUNCTIONS, lambda: 5]),
}


CLOCK = VirtualClock()
NO_INTEGERS: list[Any] = [None, "1", 1.5, True, math.nan]
NO_CALLABLES: list[Any] = [None, 5, "always", [3], lambda: True]
NO_STREAMS: list[Any] = ["S1", 5, [5]]
WRONG_IN_TESTS: Wrong = {
    "numbers": (nth, [0, -1, *NO_INTEGERS]),
    "count": (every, [0, -1, *NO_INTEGERS]),
    "share": (by_chance, [None, "1", -0.1, 1.5, math.nan, True]),
    "seed of chance": (lambda value: by_chance(0.5, value), NO_INTEGERS),
    "handler": (FaultyHandler, NO_CALLABLES),
    "times": (lambda value: FaultyHandler(handle, value), NO_CALLABLES),
    "streams": (lambda value: FaultyHandler(handle, streams=value), NO_STREAMS),
    "error": (lambda value: FaultyHandler(handle, error=value), [5, ValueError("x"), lambda number: number]),
    "has_effect": (lambda value: FaultyHandler(handle, has_effect=value), [None, 0, "no"]),
    "handler of a slow one": (lambda value: SlowHandler(value, CLOCK, 1), NO_CALLABLES),
    "clock of a slow handler": (lambda value: SlowHandler(handle, value, 1), [None, lambda: 5]),
    "seconds of a slow one": (
        lambda value: SlowHandler(handle, CLOCK, value),
        [None, "1", -1, math.nan, math.inf, True],
    ),
    "times of a slow one": (lambda value: SlowHandler(handle, CLOCK, 1, value), NO_CALLABLES),
    "streams of a slow one": (lambda value: SlowHandler(handle, CLOCK, 1, streams=value), NO_STREAMS),
    "source": (FaultySource, [None, "http://localhost", MemorySource]),
    "fails": (lambda value: FaultySource(SOURCE, fails=value), NO_CALLABLES),
    "repeats": (lambda value: FaultySource(SOURCE, repeats=value), NO_CALLABLES),
    "mixes": (lambda value: FaultySource(SOURCE, mixes=value), NO_CALLABLES),
    "seed of a source": (lambda value: FaultySource(SOURCE, seed=value), NO_INTEGERS),
    "checkpoints": (FaultyCheckpoints, [None, "sqlite:///x.db", MemoryCheckpoints]),
    "fails of checkpoints": (lambda value: FaultyCheckpoints(MemoryCheckpoints(), fails=value), NO_CALLABLES),
    "loses": (lambda value: FaultyCheckpoints(MemoryCheckpoints(), loses=value), NO_CALLABLES),
    "handler of a witness": (Witness, [5, "", lambda: True]),
    "source of a witness": (Witness().assert_handled_all, [None, "http://localhost"]),
    "parked": (lambda value: Witness().assert_handled_all(SOURCE, parked=value), NO_STREAMS),
    "clock of a processor": (lambda value: VirtualInline(handle, SOURCE, clock=value), [5, lambda: 5]),
    "failures_max": (lambda value: VirtualInline(handle, SOURCE, failures_max=value), [-1, *NO_INTEGERS]),
    "seconds of a processor": (lambda value: VirtualInline(handle, SOURCE).advance(value), [-1, None, "1", math.nan]),
    "processors": (await_caught_up, [None, InlineProcessor(handle, SOURCE), LocalProcessor]),
    "timeout": (
        lambda value: await_caught_up(LocalProcessor(handle, SOURCE), timeout=value),
        [None, "1", -1, math.nan],
    ),
    "at": (VirtualClock, NO_INTEGERS),
    "seconds of a clock": (lambda value: CLOCK.advance(seconds=value), [None, "1", math.nan, math.inf, True, 1e30]),
    "microseconds": (lambda value: CLOCK.advance(microseconds=value), NO_INTEGERS),
    "number": (an_event, [-1, *NO_INTEGERS]),
    "metadata": (lambda value: a_business_event(metadata=value), [5, "x"]),
    "metadata of a change": (lambda value: a_data_event(metadata=value), [5, "x"]),
    "headers": (lambda value: a_new_event(headers=value), [5, "x"]),
    "headers on a page": (lambda value: a_feed_event(headers=value), [5, "x"]),
    "database": (LiveHub, [None, 5, "shop.db", "mysql://x"]),
    "port": (lambda value: LiveHub("sqlite:///x.db", port=value), [0, 70_000, "80", True]),
    "log": (lambda value: LiveHub("sqlite:///x.db", log=value), [5, "hub.log"]),
    "options": (lambda value: LiveHub("sqlite:///x.db", options=value), [None, "--nakadi-strict", [5]]),
    "cluster": (PgBouncer, [None, "postgresql://localhost"]),
}


@pytest.mark.parametrize("name", WRONG_IN_PROCESSING | WRONG_IN_TESTS)
def test_bad_argument_is_refused_by_its_name(name: str) -> None:
    refuse, values, *told = (WRONG_IN_PROCESSING | WRONG_IN_TESTS)[name]
    for value in values:
        with pytest.raises(BadParameter, match=told[0] if told else "allowed: ") as caught:
            refuse(value)
        assert caught.value.parameter == name.split(maxsplit=1)[0], value
        assert "secret" not in str(caught.value)


def test_waiting_for_no_processor_is_refused() -> None:
    with pytest.raises(BadParameter, match="processors is missing; allowed: one processor at least"):
        await_caught_up()


def test_move_to_a_text_instead_of_positions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"positions is 'order.placed/0'; allowed: positions by tranche"):
        DatabaseCheckpoints(f"sqlite:///{tmp_path}/shop.db", "mailer").move("order.placed/0")  # type: ignore[arg-type]


class Unspeakable:
    """Something that fails when it is asked what it is."""

    def __repr__(self) -> str:
        raise ValueError("it has no name")


def test_error_shows_any_value_and_shortens_it() -> None:
    assert str(BadParameter(parameter="x", value=Unspeakable(), allowed="5")).endswith("x is a Unspeakable; allowed: 5")
    with pytest.raises(BadParameter) as told:
        FeedSource("n" * 100_000, "order.placed")
    assert len(str(told.value)) < 1_000


def test_missing_methods_of_a_custom_source_are_named() -> None:
    class Half:
        is_dense = is_replayable = False
        tranches = beginning = reread = close = print

    with pytest.raises(BadParameter, match=r"FeedSource.*; this one has no behind, is_by_stream, read"):
        LocalProcessor(handle, Half())  # type: ignore[arg-type]


def test_leases_are_in_the_database_of_the_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # They are looked for there.

    def sharing(database: str) -> object:
        leases = DatabaseLeases(database, "mailer")
        return LocalProcessor(
            handle, MemorySource(), leases=leases, checkpoints=DatabaseCheckpoints("sqlite:///a.db", "mailer")
        )

    sharing("sqlite:///./a.db")
    for wrong, shown in (("sqlite:///b.db", "sqlite://…"), ("postgresql://me:secret@host/shop", "postgresql://…")):
        with pytest.raises(BadParameter, match="leases is") as caught:
            sharing(wrong)
        assert (caught.value.parameter, caught.value.value) == ("leases", shown)
