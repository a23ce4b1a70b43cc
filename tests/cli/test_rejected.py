"""`penstock rejected`: rows that could not be published are listed, put back into the outbox, or deleted."""

import json
import os
import pwd
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.hub.admin.settings import Settings
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub
from tests.cli.command import Command
from tests.promises.scene import until
from tests.store_contract import Database, database_at
from tests.unit.hub.feeds import find_feed, read_data

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "outbox.md"


@pytest.fixture
def database(penstock: Command, database_url: str) -> Database:
    """A database with the tables of a hub, which the command uses."""
    penstock.environment["PENSTOCK_DATABASE"] = database_url
    assert penstock("migrate").status == 0
    return database_at(database_url)


def commit(database: Database, *rows: dict[str, Any]) -> None:
    with closing(database.connect()) as connection:
        for row in rows:
            database.insert(connection, **row)
        connection.commit()


def reject(database: Database, *rows: tuple[str, str, str]) -> list[int]:
    """Put rows of event type, data and reason where a hub does; return their ids."""
    for row in rows:
        database.run(
            "INSERT INTO penstock_rejected (event_type, data, reason, created_at, rejected_at)"
            " VALUES (?, ?, ?, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z')",
            *row,
        )
    return [row_id for (row_id,) in database.run("SELECT id FROM penstock_rejected ORDER BY id")]


def rejected(penstock: Command, *options: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = penstock("rejected", "list", "-o", "json", *options).json["rows"]
    return rows


def waiting(database: Database) -> list[tuple[str, str]]:
    return [tuple(row) for row in database.run("SELECT event_type, data FROM penstock_outbox ORDER BY id")]


def test_repaired_rows_are_put_back_beside_a_running_hub(penstock: Command, database: Database) -> None:
    with live_hub(database.url) as hub:
        penstock.environment["PENSTOCK_URL"] = hub.url
        penstock("event-type", "create", "order.placed", "--partition-key-field", "order_id")
        commit(
            database,
            {"event_type": "order.placed", "data": '{"customer":"Ada"}'},
            {"event_type": "unheard.of", "data": '{"n":1}'},
            {"event_type": "unheard.of", "data": '{"n":2}'},
            {"event_type": "order.placed", "data": '{"order_id":8}'},
        )
        count = "SELECT count(*) FROM penstock_rejected"
        until(lambda: database.run(count) == [(3,)], "three rows are rejected")
        (broken,) = rejected(penstock, "--event-type", "order.placed")
        assert broken["reason"].startswith("partition key field 'order_id' is missing")
        assert penstock("doctor").status == 1

        penstock("event-type", "create", "unheard.of")
        assert penstock("rejected", "retry", "--event-type", "unheard.of").out == "2 rows put back into the outbox\n"
        assert [line["data"] for line in feed(penstock, "unheard.of")] == [{"n": 1}, {"n": 2}]

        [repair] = re.findall(
            r"^ *```sql repair\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        database.run(repair.replace("id = 1", f"id = {broken['id']}"))
        assert penstock("rejected", "retry", broken["id"], "-o", "json").json == {"retried": 1}
        assert feed(penstock, "order.placed")[-1]["data"] == {"order_id": 7, "customer": "Ada"}

        assert rejected(penstock) == []
        assert wrong(penstock) == []


def feed(penstock: Command, event_type: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = penstock("tail", event_type, "--from", "earliest", "--no-follow", "-o", "json").lines
    return lines


def wrong(penstock: Command) -> list[str]:
    checks = penstock("doctor", "-o", "json").json["checks"]
    return [each["name"] for each in checks if each["verdict"] == "wrong"]


def test_list_prints_a_line_for_people_and_the_whole_row_as_json(penstock: Command, database: Database) -> None:
    long = '{"x":"' + "x" * 200 + '"}'
    ids = reject(database, ("a", '{"a":\n"\x1b[2J"}', "it is\nno good"), ("b", long, "too long"), ("a", "{}", "why"))

    shown = penstock("rejected", "list")
    first, second = penstock("rejected", "list", "--limit", 2, "--oldest", "-o", "json").json["rows"]

    assert re.findall(r"^ *(\d+) ", shown.out, re.MULTILINE) == [str(row_id) for row_id in reversed(ids)]
    assert '{"a": "\N{REPLACEMENT CHARACTER}[2J"}' in shown.out
    assert "it is no good" in shown.out
    assert long[:79] + "…" in shown.out
    assert (first["data"], first["reason"], second["data"]) == ('{"a":\n"\x1b[2J"}', "it is\nno good", long)
    assert (first["created_at"], first["rejected_at"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z")
    assert first.keys() == {
        "id", "event_type", "data", "key", "headers", "partition", "created_at", "rejected_at", "reason"
    }  # fmt: skip
    assert penstock("rejected", "list", "--limit", 2).out.endswith("\n2 of 3 rows; --limit shows more.\n")
    assert [row["id"] for row in rejected(penstock, ids[1], "--event-type", "b")] == [ids[1]]


def test_retry_keeps_the_order_of_rows_and_puts_back_all_or_none(penstock: Command, database: Database) -> None:
    ids = reject(database, *(("ab"[n % 2], f"{n}", "no good") for n in range(6)))

    unknown = penstock("rejected", "retry", ids[0], ids[-1] + 1)
    of_another = penstock("rejected", "retry", *ids[:2], "--event-type", "a")
    assert (unknown.status, of_another.status) == (1, 1)
    assert unknown.err.splitlines() == [
        f"penstock: there is no rejected row {ids[-1] + 1}: nothing was done",
        "  `penstock rejected list` has those that there are.",
    ]
    assert f"there is no rejected row {ids[1]} of a" in of_another.err
    assert waiting(database) == []

    assert penstock("rejected", "retry", ids[4], ids[0]).out == "2 rows put back into the outbox\n"
    assert penstock("rejected", "retry", "--all").out == "4 rows put back into the outbox\n"
    assert waiting(database) == [("a", "0"), ("a", "4"), ("b", "1"), ("a", "2"), ("b", "3"), ("b", "5")]
    assert penstock("rejected", "list").out == "There are no rejected rows.\n"


def test_delete_asks_first_and_spares_rows_that_came_meanwhile(penstock: Command, database: Database) -> None:
    ids = reject(database, ("a", "0", "no"), ("b", "1", "no"), ("b", "2", "no"), ("c", "3", "no"))

    refused = penstock("rejected", "delete", "--all")
    assert refused.status == 1
    assert "Delete 4 rejected rows, and with that the events, for ever? [y/N]" in refused.err
    assert refused.err.endswith("\n  --yes deletes without asking.\n")

    assert penstock("rejected", "delete", ids[0], stdin="y\n").out == "1 row deleted\n"
    assert penstock("rejected", "delete", "--event-type", "b", "--yes", "-o", "json").json == {"deleted": 2}
    assert [row["id"] for row in rejected(penstock)] == [ids[3]]

    with penstock.start("rejected", "delete", "--all", has_input=True) as asking:
        assert asking.stderr.read(8) == b"Delete 1"
        reject(database, ("late", "4", "came while it asked"))
        asking.stdin.write(b"y\n")
        asking.stdin.close()
        assert asking.wait(300) == 0
    assert [row["event_type"] for row in rejected(penstock)] == ["late"]


def test_audit_log_has_what_became_of_rejected_rows(penstock: Command, database: Database) -> None:
    with closing(open_store(database.url)) as store:
        Settings(store, lambda: None).switch("audit_log_collection", on=True)
        ids = reject(database, *((name, f'"{name}"', "no") for name in "aabb"))
        penstock("rejected", "retry", ids[0])
        penstock("rejected", "retry", "--event-type", "none")
        penstock("rejected", "delete", "--event-type", "b", "--yes")
        penstock("rejected", "retry", "--all")
        [partition] = find_feed(store, "nakadi.audit.log").partition_ids
        events = [json.loads(line) for line in read_data(store, partition)][1:]

    assert [(each["resource_type"], each["resource_id"], each["action"]) for each in events] == [
        ("rejected_rows", "*", "updated"), ("rejected_rows", "b", "deleted"), ("rejected_rows", "*", "updated")
    ]  # fmt: skip
    assert [each["previous_object"] for each in events] == [
        {"rows": len(some), "ids": some, "state": "rejected"} for some in (ids[:1], ids[2:], ids[1:2])
    ]
    assert events[0]["new_object"] == {"rows": 1, "ids": ids[:1], "state": "waiting"}
    assert "new_object" not in events[1]
    assert {(each["user"], each["user_type"], each["address"]) for each in events} == {
        (pwd.getpwuid(os.getuid()).pw_name, "user", "")
    }
