"""What a processor is given wrongly is refused by its name when it is given, not by Python in a run."""

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.processing import (
    AsyncBatcher,
    AsyncKeyedBatcher,
    Batcher,
    DatabaseCheckpoints,
    DatabaseLeases,
    FeedSource,
    FileSource,
    Filtered,
    HubTarget,
    Inline,
    IterableSource,
    KeyedBatcher,
    Local,
    MemorySource,
    MessagedbTarget,
    PeriodicSource,
    Projection,
    SubscriptionSource,
    Transactional,
    by_kind,
    effect_id,
    sync,
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


def handle(stream: str, events: Any) -> None: ...


def periodic(**given: Any) -> PeriodicSource:
    return PeriodicSource(**{"crawl": list, "every": 60, **given})


WRONG: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "clock": (lambda value: Local(handle, SOURCE, clock=value), [None, *NO_FUNCTIONS, lambda tick: tick]),
    "seed": (lambda value: Inline(handle, SOURCE, seed=value), NO_NUMBERS),
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
    "batches": (IterableSource, NO_LISTS),
    "tranche of an iterable": (lambda value: IterableSource([], tranche=value), NO_TEXTS),
    "is_dense": (lambda value: IterableSource([], is_dense=value), NO_FLAGS),
    "crawl": (lambda value: periodic(crawl=value), [None, *NO_FUNCTIONS, lambda since: since]),
    "every": (lambda value: periodic(every=value), [0.5, math.inf, timedelta(0), *NO_NUMBERS]),
    "tranche of a traversal": (lambda value: periodic(tranche=value), NO_TEXTS),
    "clock of a traversal": (lambda value: periodic(clock=value), NO_FUNCTIONS),
    "elapsed": (lambda value: periodic(elapsed=value), NO_FUNCTIONS),
    "event_types": (lambda value: Filtered(SOURCE, event_types=value), [*NO_LISTS, [5]]),
    "except_kinds": (lambda value: Filtered(SOURCE, except_kinds=value), [*NO_LISTS, [None]]),
    "include_system": (lambda value: Filtered(SOURCE, include_system=value), NO_FLAGS),
    "wanted": (lambda value: Filtered(SOURCE, kind=value), [["order.placed"]]),  # type: ignore[call-arg]
    "stream of a subscription": (lambda value: SubscriptionSource(HUB, "x", stream=value), [5, "x", []]),
    "name": (lambda value: Projection(value, int, lambda state, _: state), ["a b", *NO_TEXTS]),
    "state": (lambda value: Projection("counts", value, lambda state, _: state), [None, "x", 5, int]),
    "initial": (lambda value: Projection("counts", int, lambda state, _: state, initial=value), [0, "", []]),
    "is_idempotent": (
        lambda value: Transactional(DATABASE, lambda _, __: None, CHECKPOINTS, is_idempotent=value),
        NO_FLAGS,
    ),
    "ended": (lambda value: Transactional(DATABASE, lambda _, __: None, CHECKPOINTS, ended=value), NO_FUNCTIONS),
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
    "dense": (lambda value: sync(TARGET, dense=value), NO_FLAGS),
    "backoff": (lambda value: sync(TARGET, dense=True, backoff=value), [None, 5]),
    "random": (lambda value: sync(TARGET, dense=True, random=value), [5, lambda: 0.5]),
    "client": (lambda value: HubTarget(value, "order.copied", "copier"), [None, HUB]),
    "event_type": (lambda value: HubTarget(CLIENT, value, "copier"), ["", *NO_TEXTS]),
    "group": (lambda value: HubTarget(CLIENT, "order.copied", value), ["", *NO_TEXTS]),
    "url": (MessagedbTarget, ["localhost", "sqlite:///x.db", *NO_TEXTS]),
    "schema": (lambda value: MessagedbTarget("postgresql://localhost/x", schema=value), ["", *NO_TEXTS]),
    "name of a stream": (lambda value: MessagedbTarget("postgresql://localhost/x", name=value), [None, *NO_FUNCTIONS]),
    "handlers": (by_kind, [*NO_LISTS, {"a": 5}]),
    "otherwise": (lambda value: by_kind({"a": handle}, otherwise=value), [*NO_FUNCTIONS, lambda: 5]),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (_, values) in WRONG.items() for value in values])
def test_it_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match="allowed: ") as told:
        WRONG[name][0](value)
    assert told.value.fields["parameter"] == name.partition(" of ")[0]


def test_checkpoints_are_moved_to_positions_by_tranche(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"positions is 'order.placed/0'; allowed: positions by tranche"):
        DatabaseCheckpoints(f"sqlite:///{tmp_path}/shop.db", "mailer").move("order.placed/0")  # type: ignore[arg-type]


class Unspeakable:
    """Something that fails when it is asked what it is."""

    def __repr__(self) -> str:
        raise ValueError("it has no name")


def test_an_error_shows_a_value_as_far_as_it_can_and_not_at_any_length() -> None:
    assert str(BadParameter(parameter="x", value=Unspeakable(), allowed="5")).endswith("x is a Unspeakable; allowed: 5")
    with pytest.raises(BadParameter) as told:
        FeedSource("n" * 100_000, "order.placed")
    assert len(str(told.value)) < 1_000
