"""What a test says that cannot be is refused by its name, so that no test passes since nothing happens in it."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing import Inline, Local, MemoryCheckpoints, MemorySource
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

CLOCK, SOURCE = VirtualClock(), MemorySource()
NO_NUMBERS: list[Any] = [None, "1", 1.5, True, math.nan]
NO_FUNCTIONS: list[Any] = [None, 5, "always", [3], lambda: True]
NO_NAMES: list[Any] = ["S1", 5, [5]]


def handle(stream: str, events: Any) -> None: ...


WRONG: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "numbers": (nth, [0, -1, *NO_NUMBERS]),
    "count": (every, [0, -1, *NO_NUMBERS]),
    "share": (by_chance, [None, "1", -0.1, 1.5, math.nan, True]),
    "seed": (lambda value: by_chance(0.5, value), NO_NUMBERS),
    "handler": (FaultyHandler, NO_FUNCTIONS),
    "times": (lambda value: FaultyHandler(handle, value), NO_FUNCTIONS),
    "streams": (lambda value: FaultyHandler(handle, streams=value), NO_NAMES),
    "error": (lambda value: FaultyHandler(handle, error=value), [5, ValueError("x"), lambda number: number]),
    "has_effect": (lambda value: FaultyHandler(handle, has_effect=value), [None, 0, "no"]),
    "handler of a slow one": (lambda value: SlowHandler(value, CLOCK, 1), NO_FUNCTIONS),
    "clock": (lambda value: SlowHandler(handle, value, 1), [None, lambda: 5]),
    "seconds": (lambda value: SlowHandler(handle, CLOCK, value), [None, "1", -1, math.nan, math.inf, True]),
    "times of a slow one": (lambda value: SlowHandler(handle, CLOCK, 1, value), NO_FUNCTIONS),
    "streams of a slow one": (lambda value: SlowHandler(handle, CLOCK, 1, streams=value), NO_NAMES),
    "source": (FaultySource, [None, "http://localhost", MemorySource]),
    "fails": (lambda value: FaultySource(SOURCE, fails=value), NO_FUNCTIONS),
    "repeats": (lambda value: FaultySource(SOURCE, repeats=value), NO_FUNCTIONS),
    "mixes": (lambda value: FaultySource(SOURCE, mixes=value), NO_FUNCTIONS),
    "seed of a source": (lambda value: FaultySource(SOURCE, seed=value), NO_NUMBERS),
    "checkpoints": (FaultyCheckpoints, [None, "sqlite:///x.db", MemoryCheckpoints]),
    "fails of checkpoints": (lambda value: FaultyCheckpoints(MemoryCheckpoints(), fails=value), NO_FUNCTIONS),
    "loses": (lambda value: FaultyCheckpoints(MemoryCheckpoints(), loses=value), NO_FUNCTIONS),
    "handler of a witness": (Witness, [5, "", lambda: True]),
    "source of a witness": (Witness().assert_handled_all, [None, "http://localhost"]),
    "parked": (lambda value: Witness().assert_handled_all(SOURCE, parked=value), NO_NAMES),
    "clock of a processor": (lambda value: VirtualInline(handle, SOURCE, clock=value), [5, lambda: 5]),
    "failures_max": (lambda value: VirtualInline(handle, SOURCE, failures_max=value), [-1, *NO_NUMBERS]),
    "seconds of a processor": (lambda value: VirtualInline(handle, SOURCE).advance(value), [-1, None, "1", math.nan]),
    "processors": (await_caught_up, [None, Inline(handle, SOURCE), Local]),
    "timeout": (lambda value: await_caught_up(Local(handle, SOURCE), timeout=value), [None, "1", -1, math.nan]),
    "at": (VirtualClock, NO_NUMBERS),
    "seconds of a clock": (lambda value: CLOCK.advance(seconds=value), [None, "1", math.nan, math.inf, True, 1e30]),
    "microseconds": (lambda value: CLOCK.advance(microseconds=value), NO_NUMBERS),
    "number": (an_event, [-1, *NO_NUMBERS]),
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


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (_, values) in WRONG.items() for value in values])
def test_what_cannot_be_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match="allowed: ") as told:
        WRONG[name][0](value)
    assert told.value.fields["parameter"] == name.partition(" of ")[0].partition(" on ")[0]


def test_to_wait_for_no_processor_is_refused() -> None:
    with pytest.raises(BadParameter, match="processors is missing; allowed: one processor at least"):
        await_caught_up()
