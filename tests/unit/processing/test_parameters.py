"""A wrong parameter of processing is refused by its name."""

import inspect
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.processing import (
    DatabaseCheckpoints,
    DatabaseLeases,
    Effect,
    FeedSource,
    Filtered,
    HubCheckpoints,
    Inline,
    Local,
    MemoryCheckpoints,
    MemorySource,
    Projection,
    Publisher,
    SubscriptionCheckpoints,
    Transactional,
)
from penstock.processing.changes import Changes
from penstock.processing.duplicates import Duplicates
from penstock.processing.held_back import HeldBack
from penstock.processing.latest import Latest
from penstock.processing.parameters import check_count, check_name, check_seconds

HUB = "http://localhost:8080"
CHANGES = Changes("order.changed", entity=["data.order_id"], order_by=["data.version"])


@dataclass
class Count:
    """Of events."""

    n: int = 0


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        Latest(connection, CHANGES, "search").create()
        yield connection


def refused(call: Any) -> tuple[str, Any]:
    with pytest.raises(BadParameter) as caught:
        call()
    return caught.value.parameter, caught.value.value


@pytest.mark.parametrize("value", ["x", "5", 0, -1, 1.5, True, None, float("nan")], ids=repr)
def test_number_of_events_is_whole_and_positive(connection: sqlite3.Connection, value: Any) -> None:
    assert refused(lambda: check_count("limit", value))[0] == "limit"
    assert refused(lambda: HeldBack(limit=value))[0] == "limit"
    assert refused(lambda: HeldBack(remembered=value))[0] == "remembered"
    assert refused(lambda: Duplicates(connection, "a", "b", window_events=value))[0] == "window_events"


@pytest.mark.parametrize("value", ["x", -1, -0.5, True, None, float("nan"), float("inf")], ids=repr)
def test_span_is_in_seconds(connection: sqlite3.Connection, value: Any) -> None:
    latest = Latest(connection, CHANGES, "search")

    assert refused(lambda: check_seconds("seconds", value))[0] == "seconds"
    assert refused(lambda: latest.forget_deleted(value))[0] == "seconds"
    if value is not None:  # Then there is no such window.
        assert refused(lambda: Duplicates(connection, "a", "b", window_seconds=value))[0] == "window_seconds"


def test_deletions_may_be_forgotten_at_once_but_a_window_is_positive(connection: sqlite3.Connection) -> None:
    Latest(connection, CHANGES, "search").forget_deleted(0)

    assert refused(lambda: Duplicates(connection, "a", "b", window_seconds=0)) == ("window_seconds", 0)


@pytest.mark.parametrize("name", [None, "", 5, b"search", "  ", "a\nb", "a\x00", "\ud800"], ids=repr)
def test_consumer_has_a_name(connection: sqlite3.Connection, name: Any) -> None:
    assert refused(lambda: check_name("consumer", name)) == ("consumer", name)
    assert refused(lambda: Latest(connection, CHANGES, name)) == ("consumer", name)
    assert refused(lambda: Duplicates(connection, "a", name)) == ("consumer", name)


@pytest.mark.parametrize("name", [None, "", 5], ids=repr)
def test_malformed_name_is_refused_under_the_name_of_its_parameter(name: Any) -> None:
    assert refused(lambda: DatabaseCheckpoints("sqlite:///shop.db", name)) == ("processor", name)
    assert refused(lambda: DatabaseLeases("sqlite:///shop.db", name)) == ("processor", name)
    assert refused(lambda: HubCheckpoints(HUB, name)) == ("group", name)
    assert refused(lambda: MemoryCheckpoints(name)) == ("group", name)


def test_address_of_a_hub_is_checked_at_once() -> None:
    assert refused(lambda: HubCheckpoints("localhost:8080", "mailer")) == ("url", "localhost:8080")


RUNNERS: dict[str, Callable[..., object]] = {
    "inline": lambda source, **options: Inline(handle, source, **options),
    "local": lambda source, **options: Local(handle, source, **options),
    "projection, inline": lambda source, **_: PROJECTION.inline(source, lambda: sqlite3.connect(":memory:")),
    "projection, local": lambda source, **_: PROJECTION.local(source, lambda: sqlite3.connect(":memory:")),
    "filtered": lambda source, **_: Filtered(source),
}


def handle(stream: str, events: Sequence[Any]) -> None: ...


PROJECTION = Projection("counts", Count, lambda state, event: state)  # noqa: ARG005


@pytest.mark.parametrize("run", RUNNERS.values(), ids=[*RUNNERS])
@pytest.mark.parametrize("source", ["http://me:secret@localhost:8080", None, MemorySource], ids=str)
def test_another_object_than_a_source_is_refused_everywhere(run: Callable[..., object], source: Any) -> None:
    with pytest.raises(BadParameter, match=r"source .*; allowed: a source, such as FeedSource\(url, '") as told:
        run(source)
    assert "secret" not in str(told.value)


def test_missing_methods_of_a_custom_source_are_named() -> None:
    class Half:
        is_dense = is_replayable = False
        tranches = beginning = reread = close = print

    with pytest.raises(BadParameter, match=r"FeedSource.*; this one has no behind, is_by_stream, read"):
        Local(handle, Half())  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [RUNNERS["inline"], RUNNERS["local"]], ids=["inline", "local"])
@pytest.mark.parametrize("checkpoints", ["postgresql://me:secret@host/db", MemoryCheckpoints, 5], ids=str)
def test_another_object_than_checkpoints_is_refused_everywhere(run: Any, checkpoints: Any) -> None:
    with pytest.raises(BadParameter, match=r"checkpoints is .*; allowed: DatabaseCheckpoints\(database, '") as told:
        run(MemorySource(), checkpoints=checkpoints)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("checkpoints", [HubCheckpoints(HUB, "mailer"), MemoryCheckpoints(), "sqlite:///shop.db"])
def test_transactional_keeps_its_positions_in_its_database(checkpoints: Any) -> None:
    with pytest.raises(BadParameter, match=r"checkpoints is .*; allowed: DatabaseCheckpoints of the same database"):
        Transactional("sqlite:///shop.db", lambda connection, spans: None, checkpoints)  # noqa: ARG005


def test_positions_of_a_subscription_are_those_of_its_source() -> None:
    assert refused(lambda: SubscriptionCheckpoints(HUB))[0] == "source"  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [["order.placed"], ("order.placed",), 5, ""], ids=repr)
def test_event_types_are_listed_one_by_one(names: Any) -> None:
    with pytest.raises(
        BadParameter, match=r"event_types is .*; allowed: the names of event types, one after the other"
    ):
        FeedSource(HUB, "order.paid", names)


@pytest.mark.parametrize("name", ["", 5, b"mailer"], ids=repr)
def test_name_of_a_processor_or_producer_group_is_a_text(name: Any) -> None:
    for run in (RUNNERS["inline"], RUNNERS["local"]):
        assert refused(lambda run=run: run(MemorySource(), name=name)) == ("name", name)
    with Client(HUB) as client:
        assert refused(lambda: Publisher(client, name)) == ("group", name)


def test_effect_has_an_event_type_and_texts_for_names() -> None:
    for event_type in (3, "", None):
        assert refused(lambda event_type=event_type: Effect(event_type, {})) == ("event_type", event_type)
    assert refused(lambda: Effect("mail.sent", {}, name=5)) == ("name", 5)  # type: ignore[arg-type]
    assert refused(lambda: Effect("mail.sent", {}, key=5)) == ("key", 5)  # type: ignore[arg-type]
    assert [*inspect.signature(Effect).parameters] == ["event_type", "data", "name", "key"]


def test_leases_are_in_the_database_of_the_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # They are looked for there.

    def sharing(database: str) -> object:
        leases = DatabaseLeases(database, "mailer")
        return Local(handle, MemorySource(), leases=leases, checkpoints=DatabaseCheckpoints("sqlite:///a.db", "mailer"))

    sharing("sqlite:///./a.db")
    assert refused(lambda: sharing("sqlite:///b.db")) == ("leases", "sqlite://…")
    assert refused(lambda: sharing("postgresql://me:secret@host/shop")) == ("leases", "postgresql://…")
