"""`penstock groups --database`: positions in a database of the user's; and processors that a hub keeps, beside."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, NewPosition
from penstock.processing import DatabaseCheckpoints, FeedSource, HubCheckpoints, InlineProcessor
from penstock.processing.checkpoints import Advance, Parked, PositionMove
from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command, Result
from tests.exhaustive import exhaustive

Checkpoint = Callable[..., Result]
A, B = "order.placed/0", "order.placed/1"
BAD = Parked("order.placed-7", A, 3, 9, 4, 5, "ValueError", "no such customer", "1:3")
WORSE = Parked("order.placed-8", B, 0, 1, 1, 2, "timeout", "the handler was not done after 1 s", "1:0")


@pytest.fixture(params=["sqlite", exhaustive("postgres")])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of the database in which `mailer` and `ledger` keep their positions."""
    url = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    mailer, ledger = DatabaseCheckpoints(url, "mailer"), DatabaseCheckpoints(url, "ledger")
    mailer.positions()
    mailer.commit(
        Advance({A: PositionMove(None, "1:30"), B: PositionMove(None, "1:12")}, {BAD.place: BAD, WORSE.place: WORSE})
    )
    ledger.commit(Advance({"files": PositionMove(None, 7)}))
    return str(url)


@pytest.fixture
def checkpoint(penstock: Command, database: str) -> Checkpoint:
    """The command `penstock groups` for that database."""
    return lambda *words, **how: penstock("groups", *words, "--database", database, **how)


def positions(database: str, processor: str = "mailer") -> dict[str, Any]:
    return dict(DatabaseCheckpoints(database, processor).positions())


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_processors_are_listed_and_shown(checkpoint: Checkpoint, database: str) -> None:
    listed = checkpoint("list")
    assert [line[:6] for line in words(listed.out)[2:]] == [
        ["ledger", "files", "1", "-", "-", "0"], ["mailer", "order.placed", "2", "-", "-", "2"],
    ]  # fmt: skip
    found = checkpoint("list", "-o", "json").json
    assert [(each["name"], each["reads"], each["gap"], each["parked"]) for each in found] == [
        ("ledger", ["files"], None, 0), ("mailer", ["order.placed"], None, 2),
    ]  # fmt: skip

    shown = checkpoint("show", "mailer")
    assert [line[:5] for line in words(shown.out)[2:]] == [[A, "1:30", "-", "-", "1"], [B, "1:12", "-", "-", "1"]]
    [first, _] = checkpoint("show", "mailer", "-o", "json").json["positions"]
    assert (first["tranche"], first["position"], first["parked"]) == (A, "1:30", 1)
    assert datetime.fromisoformat(first["updated_at"]) <= datetime.now(UTC)


def test_set_asks_first_and_is_kept_in_the_history(checkpoint: Checkpoint, database: str) -> None:
    command = ("reset", "mailer", "--tranche", A, "--position", "10")

    tried = checkpoint(*command, "--dry-run")
    assert tried.out.endswith("would move mailer: 1 position, 20 events again\n")
    refused = checkpoint(*command, stdin="n\n")
    assert "Move mailer: 1 position, 20 events again, order.placed/0 to 1:10? [y/N]" in refused.err
    assert (refused.status, positions(database)[A]) == (1, "1:30")

    moved = checkpoint(*command, "--reason", "mails were lost", "-o", "json", stdin="y\n").json
    assert moved == {
        "name": "mailer",
        "items": [{"tranche": A, "came_from": "1:30", "went_to": "1:10", "streams_again": 0}],
        "dry_run": False,
    }
    assert positions(database) == {A: "1:10", B: "1:12"}
    assert checkpoint(*command, "-y").out == "mailer is there already.\n"
    assert "mails were lost" in checkpoint("history", "mailer").out
    [moved] = checkpoint("history", "mailer", "-o", "json").json
    assert (moved["tranche"], moved["came_from"], moved["went_to"], moved["reason"]) == (
        A, "1:30", "1:10", "mails were lost",
    )  # fmt: skip
    assert checkpoint("history", "ledger").out == "Nobody has moved ledger.\n"


def test_unchanged_position_rewinds_streams_that_are_ahead_of_it(checkpoint: Checkpoint, database: str) -> None:
    checkpoints = DatabaseCheckpoints(database, "mailer")
    checkpoints.commit(Advance({}, ahead={("order.placed-1", A): 41, ("order.placed-2", A): 50}))
    command = ("reset", "mailer", "--tranche", A, "--position", "1:30")

    tried = checkpoint(*command, "--dry-run")
    assert tried.out.endswith("would move mailer: 1 position, 2 streams again that had done more\n")
    assert checkpoints.take_over([A], "me")[A], "it was only tried"
    moved = checkpoint(*command, "-y", "--reason", "rows were lost", "-o", "json").json
    assert moved["items"] == [{"tranche": A, "came_from": "1:30", "went_to": "1:30", "streams_again": 2}]
    assert checkpoints.take_over([A], "me") == {A: {}}
    assert [each.reason for each in checkpoints.history()] == ["rows were lost"]
    assert checkpoint(*command, "-y").out == "mailer is there already.\n"


def test_position_before_a_parked_event_parks_its_stream_from_there(checkpoint: Checkpoint, database: str) -> None:
    checkpoints = DatabaseCheckpoints(database, "mailer")
    far = Parked("order.placed-9", A, 25, 29, 3, 1, "ValueError", "no such customer", "1:20")
    checkpoints.commit(Advance({A: PositionMove("1:30", "1:31")}, {far.place: far}))
    command = ("reset", "mailer", "--tranche", A, "-y", "--position")

    def waits() -> dict[str, tuple[int, object]]:
        return {each.stream: (each.index, each.since) for each in checkpoints.parked() if each.tranche == A}

    assert "had done more" not in checkpoint(*command, "1:28").out
    assert waits() == {"order.placed-7": (3, "1:3"), "order.placed-9": (25, "1:20")}
    assert "1 stream again that had done more" in checkpoint(*command, "1:22").out
    assert waits() == {"order.placed-7": (3, "1:3"), "order.placed-9": (22, "1:20")}
    assert "2 streams again that had done more" in checkpoint(*command, "1:2").out
    assert waits() == {"order.placed-7": (0, "1:2"), "order.placed-9": (0, "1:2")}
    assert checkpoint(*command, "1:2").out == "mailer is there already.\n"


def test_unknown_tranche_and_position_of_another_kind_are_refused(checkpoint: Checkpoint, database: str) -> None:
    unknown = checkpoint("reset", "mailer", "--tranche", "typo/0", "--position", 3, "-y")
    feed = checkpoint("reset", "mailer", "--tranche", A, "--position", "last", "-y")
    number = checkpoint("reset", "ledger", "--tranche", "files", "--position", "x")

    assert (unknown.status, feed.status, number.status) == (2, 2, 2)
    assert f"mailer has no tranche 'typo/0'\n  Name one that it has: {A}, {B}." in unknown.err
    assert "'last' is not EPOCH:OFFSET" in feed.err
    assert "'x' is no whole number" in number.err
    assert positions(database) == {A: "1:30", B: "1:12"}
    assert checkpoint("reset", "ledger", "--tranche", "files", "--position", 3, "-y").status == 0
    assert positions(database, "ledger") == {"files": 3}


def test_new_processor_begins_where_one_without_parked_streams_is(checkpoint: Checkpoint, database: str) -> None:
    command = ("reset", "mailer2", "--like", "mailer")
    mailer = DatabaseCheckpoints(database, "mailer")

    refused = checkpoint(*command, "-y")
    assert (refused.status, positions(database, "mailer2")) == (1, {})
    assert refused.err.startswith("penstock: mailer has parked 2 streams there: order.placed-7, order.placed-8\n")
    assert "retry or skip them first" in refused.err
    mailer.commit(Advance({}, {BAD.place: None}))
    assert "mailer has parked 1 stream there: order.placed-8\n" in checkpoint(*command, "-y").err
    assert checkpoint(*command, "--tranche", A, "-y").status == 0
    assert positions(database, "mailer2") == {A: "1:30"}

    mailer.commit(Advance({}, {WORSE.place: None}))
    like = ("reset", "mailer3", "--like", "mailer")
    assert "Move mailer3, of which nothing is kept yet: 2 positions?" in checkpoint(*like, stdin="n\n").err
    assert checkpoint(*like, "-y").status == 0
    assert positions(database, "mailer3") == positions(database)
    assert "there is no tranche 'x'" in checkpoint(*like, "--tranche", "x", "-y").err


def test_parked_streams_are_shown_retried_and_skipped(checkpoint: Checkpoint, database: str) -> None:
    checkpoints = DatabaseCheckpoints(database, "mailer")
    shown = checkpoint("parked", "list", "mailer")
    assert "ValueError: no such customer" in shown.out
    [first, second] = checkpoint("parked", "list", "mailer", "-o", "json").json
    assert (first["stream"], first["index"], first["events"], first["since"], first["request"]) == (
        "order.placed-7", 3, 4, "1:3", None,
    )  # fmt: skip
    assert second["detail"] == "the handler was not done after 1 s"
    assert "timeout: the handler was not done after 1 s" in checkpoint("parked", "show", "mailer", "order.placed-8").out
    assert checkpoint("parked", "show", "mailer", "order.placed-8", "-o", "json").json == [second]

    retried = checkpoint("parked", "retry", "mailer", "order.placed-7")
    assert retried.out == "1 stream of mailer will be tried again\n"
    assert {stream: wanted for (stream, _), wanted in checkpoints.requests().items()} == {"order.placed-7": "retry"}

    skip = ("parked", "skip", "mailer", "order.placed-8", "--reason", "a test order")
    skipped = checkpoint(*skip, "-o", "json")
    assert skipped.json == {"name": "mailer", "stream": "order.placed-8", "skipped_events": 1}
    assert checkpoint(*skip).out == "1 event of order.placed-8 will be passed over\n"
    assert sorted(checkpoints.requests().values()) == ["retry", "skip"]
    assert str(checkpoints.history()[0].reason).endswith(": a test order")
    assert "order.placed-8 is skipped from" in checkpoint("history", "mailer").out
    assert checkpoint("parked", "retry", "mailer", "--all", "-o", "json").json == {"name": "mailer", "retried": 2}
    unknown = checkpoint("parked", "skip", "mailer", "nobody", "--reason", "no")
    assert (unknown.status, "processor 'mailer' has no parked stream 'nobody'" in unknown.err) == (1, True)
    for command in (("retry", "mailer", "PLACED"), ("skip", "mailer", "PLACED", "--reason", "no")):
        shown = checkpoint("parked", *command)
        asks = "has no parked stream 'PLACED'; did you mean 'order.placed-7' or 'order.placed-8'?"
        assert (shown.status, asks in " ".join(shown.err.split())) == (1, True)
    assert checkpoint("parked", "list", "ledger").out == "ledger has parked nothing.\n"


def test_delete_asks_first(checkpoint: Checkpoint, database: str) -> None:
    refused = checkpoint("delete", "mailer", stdin="n\n")
    assert "Forget mailer, which has 2 positions, for ever?" in refused.err
    assert positions(database)

    forgotten = checkpoint("delete", "mailer", "--yes", "-o", "json")
    assert forgotten.json == {"name": "mailer", "deleted_positions": 2}
    assert positions(database) == {}
    gone = checkpoint("show", "mailer")
    assert (gone.status, gone.err.splitlines()[0]) == (1, "penstock: no position is stored for processor 'mailer'")


def test_missing_database_and_missing_tables_are_reported(penstock: Command, tmp_path: Path) -> None:
    missing = penstock("groups", "list", "--database", f"sqlite:///{tmp_path}/none.db")
    assert missing.err.splitlines() == [
        f"penstock: there is no file {tmp_path}/none.db",
        "  Correct --database: it names the one in which the processor keeps its positions.",
    ]
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection:
        connection.execute("CREATE TABLE other (n INTEGER)")
    empty = f"sqlite:///{tmp_path}/empty.db"
    assert penstock("groups", "list", "--database", empty).out == "No positions are kept there.\n"
    assert penstock("groups", "show", "mailer", "--database", empty).status == 1
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)], "nothing is made"
    assert penstock("groups", "list", "--database", "shop.db").status == 2


@pytest.mark.parametrize(
    "command", [("list",), ("show", "mailer"), ("parked", "list", "mailer"), ("history", "mailer")]
)
def test_file_that_is_no_database_and_tables_of_another_shape_are_reported(
    penstock: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("no database at all\n" * 100)
    wrong = penstock("groups", *command, "--database", f"sqlite:///{notes}")
    assert (wrong.status, f"{notes} is not a SQLite database" in wrong.err) == (1, True)
    assert wrong.err.splitlines()[1] == "  Correct --database; if the file was a database, put a backup back."

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE penstock_checkpoints (processor TEXT, pos TEXT)")
    other = penstock("groups", *command, "--database", f"sqlite:///{tmp_path}/shop.db")
    assert (other.status, "lacks the columns owner; position; tranche; updated_at" in other.err) == (1, True)


@pytest.fixture
def feed(hub: LiveHub, request: pytest.FixtureRequest) -> Iterator[str]:
    """An event type with two partitions; half of its twenty events were received before `publish_after_now`."""
    name = f"orders-{abs(hash(request.node.nodeid)):x}"
    with Client(hub.url) as client:
        client.create_event_type(name, partition_count=2, partition_strategy="user_defined")
        publish(client, name, 5)
        yield name
        client.delete_event_type(name)


def publish(client: Client, name: str, count: int) -> None:
    for partition in "01":
        client.publish(name, [{"metadata": {"partition": partition}, "n": number} for number in range(count)])


def drain(hub: LiveHub, feed: str, checkpoints: Any) -> list[int]:
    """Run a processor until it has caught up; return the sorted numbers of the events that it handled."""
    seen: list[int] = []

    def handle(stream: str, events: Sequence[Any]) -> None:
        seen.extend(event.data["n"] for event in events)

    with FeedSource(hub.url, feed) as source:
        InlineProcessor(handle, source, checkpoints=checkpoints).drain()
    return sorted(seen)


def publish_after_now(hub: LiveHub, feed: str) -> str:
    """Return a time, and publish as many events after it as before."""
    time.sleep(0.01)  # So that the hub's clock of milliseconds tells one side from the other.
    found = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    with Client(hub.url) as client:
        publish(client, feed, 5)
    return found


@pytest.fixture(params=["database", "hub"])
def kept(request: pytest.FixtureRequest, hub: LiveHub, feed: str, tmp_path: Path) -> tuple[Any, list[str]]:
    """The checkpoints of a processor of that feed, and the options by which the command finds them."""
    name = f"mailer of {feed}"
    if request.param == "hub":
        return HubCheckpoints(hub.url, name), ["--url", hub.url]
    url = f"sqlite:///{tmp_path}/shop.db"
    return DatabaseCheckpoints(url, name), ["--database", url, "--hub", hub.url]


def test_processor_is_rewound_to_a_time_the_begin_and_the_end(
    penstock: Command, hub: LiveHub, feed: str, kept: tuple[Any, list[str]]
) -> None:
    checkpoints, options = kept
    name = checkpoints.name
    at = publish_after_now(hub, feed)
    assert len(drain(hub, feed, checkpoints)) == 20
    command = ("groups", "reset", name, *options)

    tried = penstock(*command, "--to", at, "--dry-run")
    assert tried.out.endswith(f"would move {name}: 2 positions, 10 events again\n")
    assert drain(hub, feed, checkpoints) == []
    assert penstock(*command, "--to", at, "-y", "--reason", "mails were lost").status == 0
    assert drain(hub, feed, checkpoints) == sorted([*range(5)] * 2)

    one = penstock(*command, "--to", "earliest", "--partition", 1, "-y", "-o", "json").json
    assert [each.get("went_to", each.get("offset")) in ("1:0", 0) for each in one["items"]] == [True]
    assert len(drain(hub, feed, checkpoints)) == 10
    assert penstock(*command, "--to", "earliest", "-y").out.endswith(f"moved {name}: 2 positions, 20 events again\n")
    assert penstock(*command, "--to", "latest", "-y").out.endswith(
        f"moved {name}: 2 positions, 20 events passed over\n"
    )
    assert drain(hub, feed, checkpoints) == []
    history = penstock("groups", "history", name, *options, "-o", "json").json
    assert [each["reason"] for each in history] == [None] * 5 + ["mails were lost"] * 2
    assert len(penstock("groups", "history", name, *options, "--limit", 1, "-o", "json").json) == 1


def test_position_is_set_by_its_offset_in_a_database_and_a_hub(
    penstock: Command, hub: LiveHub, feed: str, kept: tuple[Any, list[str]]
) -> None:
    checkpoints, options = kept
    drain(hub, feed, checkpoints)
    for offset in (("--partition", 0, "--offset", 3), ("--event-type", feed, "--offset", "0=3")):
        moved = penstock("groups", "reset", checkpoints.name, *options, *offset, "-y", "-o", "json")
        assert len(moved.json["items"]) == 1
        assert drain(hub, feed, checkpoints) == [3, 4]
    penstock("groups", "reset", checkpoints.name, *options, "--offset", "0=earliest", "--offset", "1=4", "-y")
    assert drain(hub, feed, checkpoints) == [0, 1, 2, 3, 4, 4]
    assert dict(checkpoints.positions()) == {f"{feed}/0": "1:5", f"{feed}/1": "1:5"}


def test_first_position_in_a_database_is_checked_against_the_hub(
    penstock: Command, hub: LiveHub, feed: str, database: str
) -> None:
    def began(tranche: str, position: object, url: str = hub.url, processor: str = "new") -> Result:
        place = ("--tranche", tranche, "--position", position)
        return penstock("groups", "reset", processor, *place, "--database", database, "--hub", url, "-y")

    typo, partition, epoch, word = (
        began("typo/0", "1:0"), began(f"{feed}/9", "1:0"), began(f"{feed}/0", "7:0"), began(f"{feed}/0", "last"),
    )  # fmt: skip
    assert f"the hub at {hub.url} has no feed 'typo'" in typo.err
    assert f"'{feed}' has no partition 9\n  Name one that it has: {feed}/0, {feed}/1." in partition.err
    assert f"'{feed}' is in epoch 1, not 7" in epoch.err
    assert "'last' is not EPOCH:OFFSET" in word.err
    beyond = began(f"{feed}/0", 99)
    assert f"{feed}/0 has no offset 99: it ends at 5\n  5 is the offset that its next event will have" in beyond.err
    assert [each.status for each in (typo, partition, epoch, word, beyond)] == [1, 2, 1, 2, 2]
    assert positions(database, "new") == {}

    assert began(f"{feed}/0", 3).status == 0
    assert positions(database, "new") == {f"{feed}/0": "1:3"}
    assert "is in epoch 1, not 7" in began(f"{feed}/0", "7:0").err
    assert began("files", 3, processor="ledger").status == began("s3/part/0", 3, processor="other").status == 0
    assert positions(database, "other") == {"s3/part/0": 3}
    away = began(f"{feed}/0", "1:4", url="http://127.0.0.1:1")
    assert (away.status, "whether there is such a place is not known" in away.err) == (0, True)
    assert positions(database, "new") == {f"{feed}/0": "1:4"}


def test_rewind_of_another_source_than_a_feed_is_refused(penstock: Command, hub: LiveHub, database: str) -> None:
    files = penstock("groups", "reset", "ledger", "--to", "earliest", "--database", database, "--hub", hub.url)
    orders = penstock("groups", "reset", "mailer", "--to", "earliest", "--database", database, "--hub", hub.url)
    nowhere = penstock("groups", "reset", "mailer", "--to", "earliest", "--like", "ledger", "--database", database)
    never = penstock("groups", "reset", "mailer", "--to", "yesterday", "--database", database)

    assert "'files' is no partition of a feed" in files.err
    assert "--tranche and --position move it" in files.err
    assert (files.status, orders.status, nowhere.status, never.status) == (1, 1, 2, 2)
    assert positions(database) == {A: "1:30", B: "1:12"}


def test_processor_of_a_hub_begins_where_another_without_parked_streams_is(
    penstock: Command, hub: LiveHub, feed: str
) -> None:
    checkpoints, new = HubCheckpoints(hub.url, f"ledger of {feed}"), HubCheckpoints(hub.url, f"new of {feed}")
    drain(hub, feed, checkpoints)
    bad = replace(BAD, tranche=f"{feed}/0")
    standing = {f"{feed}/0": PositionMove("1:5", "1:5")}
    checkpoints.commit(Advance(standing, {bad.place: bad}))
    command = ("groups", "reset", new.name, "--like", checkpoints.name, "--url", hub.url)

    refused = penstock(*command, "-y")
    assert (refused.status, "has parked 1 stream there: order.placed-7" in refused.err) == (1, True)
    checkpoints.commit(Advance(standing, {bad.place: None}))
    assert "of which nothing is kept yet: 2 positions?" in penstock(*command, stdin="n\n").err
    assert penstock(*command, "-y").status == 0
    assert new.positions() == checkpoints.positions()
    penstock("groups", "reset", checkpoints.name, "--url", hub.url, "--offset", "0=2", "-y")
    assert penstock(*command, "-y").out.endswith("moved " + new.name + ": 2 positions, 3 events again\n")
    assert new.positions() == {f"{feed}/0": "1:2", f"{feed}/1": "1:5"}
    with Client(hub.url) as client:
        client.commit_positions(f"carts of {feed}", [NewPosition(feed, 0, 1)], kind="spark")
    other = penstock("groups", "reset", new.name, "--like", f"carts of {feed}", "--url", hub.url, "-y")
    assert other.err.startswith(f"penstock: carts of {feed} is a spark, not a processor\n")


def test_streams_that_a_processor_has_parked_at_a_hub_are_shown_retried_and_skipped(
    penstock: Command, hub: LiveHub, feed: str
) -> None:
    checkpoints = HubCheckpoints(hub.url, f"mailer of {feed}")
    drain(hub, feed, checkpoints)
    spans = [replace(BAD, tranche=f"{feed}/0"), replace(WORSE, tranche=f"{feed}/1", stream="back\\slash")]
    standing = {each.tranche: PositionMove("1:5", "1:5") for each in spans}
    checkpoints.commit(Advance(standing, {each.place: each for each in spans}))

    def parked(command: str, *words: object) -> Result:
        return penstock("groups", "parked", command, checkpoints.name, *words, "--url", hub.url)

    hint = f"2 streams parked: `penstock groups parked list {checkpoints.name}`"
    assert hint in penstock("groups", "show", checkpoints.name, "--url", hub.url, COLUMNS="300").out
    first, second = parked("list", "-o", "json").json
    assert (first["stream"], first["tranche"], first["index"]) == ("order.placed-7", f"{feed}/0", 3)
    assert "ValueError: no such customer" in parked("list").out
    assert parked("show", second["id"]).out.startswith(f"parked: back\\slash in {feed}/1, since 20")
    assert parked("show", "back\\slash", "-o", "json").json == [second]
    assert parked("retry", "order.placed-7").out == f"1 stream of {checkpoints.name} will be tried again\n"
    assert parked("skip", second["id"], "--reason", "a test").out == "1 event of back\\slash will be passed over\n"
    assert {stream: wanted for (stream, _), wanted in checkpoints.requests().items()} == {
        "order.placed-7": "retry", "back\\slash": "skip",
    }  # fmt: skip
    history = penstock("groups", "history", checkpoints.name, "--url", hub.url).out
    assert ("skipped" in history, "a test" in history) == (True, True)
    assert parked("retry", "--all", "-o", "json").json["retried"] == 2
    unknown = parked("retry", "PLACED")
    assert (unknown.status, "did you mean 'order.placed-7'?" in " ".join(unknown.err.split())) == (1, True)


def test_reported_group_is_listed_and_moved_where_its_positions_are(
    penstock: Command, hub: LiveHub, feed: str, database: str
) -> None:
    name, at = f"ledger of {feed}", ("--url", hub.url)
    with Client(hub.url) as client:
        place = NewPosition(feed, 0, 3)
        client.commit_positions(name, [place], kind="reported", kept_at="postgresql://db/shop, table positions")

    [listed] = penstock("groups", "--event-type", feed, *at, "-o", "json").json
    assert (listed["kind"], listed["gap"], listed["kept_at"]) == (
        "reported", 2, "postgresql://db/shop, table positions",
    )  # fmt: skip
    assert "kept in postgresql://db/shop, table positions" in penstock("groups", "show", name, *at).out
    refused = penstock("groups", "reset", name, "--to", "latest", "-y", *at, COLUMNS="300")
    assert (refused.status, f"`penstock groups reset {name} --database URL`" in refused.err) == (1, True)
    parked = penstock("groups", "parked", "list", name, *at)
    assert parked.err.splitlines() == [
        f"penstock: {name} keeps what it has parked in postgresql://db/shop, table positions",
        "  Name that database with --database URL.",
    ]


def test_gap_and_lag_of_positions_in_a_database_come_from_the_named_hub(
    penstock: Command, hub: LiveHub, feed: str, database: str
) -> None:
    checkpoints = DatabaseCheckpoints(database, f"ledger of {feed}")
    drain(hub, feed, checkpoints)
    with Client(hub.url) as client:
        publish(client, feed, 3)
    checkpoints.commit(Advance({f"{feed}/1": PositionMove("1:5", "1:8")}))
    others = DatabaseCheckpoints(database, f"old of {feed}")  # Of an epoch, and a partition, that are not there.
    others.commit(Advance({f"{feed}/0": PositionMove(None, "2:1"), f"{feed}/7": PositionMove(None, "1:1")}))
    asked = ("--database", database, "--hub", hub.url)

    shown = penstock("groups", "show", checkpoints.name, *asked, "-o", "json").json["positions"]
    assert [(each["gap"], each["parked"]) for each in shown] == [(3, 0), (0, 0)]
    assert (shown[0]["lag_seconds"] > 0, shown[1]["lag_seconds"]) == (True, 0)
    table = words(penstock("groups", "show", checkpoints.name, *asked).out)
    assert (table[0][:5], table[2][:3]) == (["tranche", "position", "gap", "lag", "parked"], [f"{feed}/0", "1:5", "3"])
    found = {each["name"]: each for each in penstock("groups", "list", *asked, "-o", "json").json}
    assert (found[checkpoints.name]["gap"], found[checkpoints.name]["lag_seconds"] > 0) == (3, True)
    for name in ("mailer", "ledger", others.name):
        assert (found[name]["gap"], found[name]["lag_seconds"]) == (None, None), "that hub cannot tell"
    shown = penstock("groups", "show", others.name, *asked).err.splitlines()
    assert (len(shown), f"'{feed}' was created again, it is in epoch 1, not 2;" in shown[0]) == (1, True)
    beyond = DatabaseCheckpoints(database, f"beyond {feed}")
    beyond.commit(Advance({f"{feed}/0": PositionMove(None, "1:9"), f"{feed}/1": PositionMove(None, "1:8")}))
    shown = penstock("groups", "show", beyond.name, *asked, "-o", "json")
    assert [each["gap"] for each in shown.json["positions"]] == [None, 0], "nobody can be behind what is not there"
    assert f"{feed}/0 ends at 1:8, before 1:9; `penstock groups reset` moves" in " ".join(shown.err.split())
    command = ("groups", "show", checkpoints.name, "--database", database, "-o", "json")
    again = penstock(*command, PENSTOCK_URL=hub.url).json["positions"]
    assert [each["gap"] for each in again] == [3, 0]


def test_positions_are_shown_without_gap_if_the_hub_is_unreachable(penstock: Command, database: str) -> None:
    asked = ("--database", database, "--hub", "http://127.0.0.1:1")
    shown = penstock("groups", "show", "mailer", *asked)

    assert [line[:4] for line in words(shown.out)[2:]] == [[A, "1:30", "-", "-"], [B, "1:12", "-", "-"]]
    assert len(shown.err.splitlines()) == 1, "it is said once"
    assert "gap and lag are not known: http://127.0.0.1:1/" in shown.err
    assert "cannot be reached" in shown.err
