"""A row of the outbox that cannot be published is rejected, with the reason; the rows beside it are published."""

import json
from typing import Any

import pytest

from penstock.hub.hub import Hub
from tests.producing import together
from tests.promises.scene import NAME, assert_outbox_is_empty, event, feed, hub_on, rows_of, service

EID = '"eid":"7f3b1a3e-4b1c-4f57-9a3a-6f6a8c1b2c3d","occurred_at":"2020-01-01T00:00:00Z"'

BAD: dict[str, dict[str, Any]] = {
    "not JSON": {"data": "{", "partition": 0},
    "empty": {"data": "", "partition": 0},
    "a line's end within a number": {"data": '{"a":1\n2}', "partition": 0},
    "a line's end within a word": {"data": '{"a":tr\r\nue}', "partition": 0},
    "a line's end within a string": {"data": '{"a":"x\ny"}', "partition": 0},
    "no object": {"data": "[1]", "partition": 0},
    "a key twice": {"data": '{"a":1,"a":2}', "partition": 0},
    "nested without end": {"data": '{"a":' * 100_000, "partition": 0},
    "too large": {"data": '{"a":"' + "x" * 999_000 + '"}', "partition": 0},
    "no such partition": {"data": "{}", "partition": 7},
    "a negative partition": {"data": "{}", "partition": -1},
    "no partition at all": {"data": "{}"},
    "headers that are no object": {"data": "{}", "partition": 0, "headers": "[]"},
    "headers that are no JSON": {"data": "{}", "partition": 0, "headers": "x"},
    "headers that are no strings": {"data": "{}", "partition": 0, "headers": '{"a":1}'},
    "a key with a control character": {"data": "{}", "partition": 0, "key": "a\nb"},
    "a key without end": {"data": "{}", "partition": 0, "key": "x" * 5000},
    "a kind with a control character": {"data": "{}", "partition": 0, "headers": '{"ce_type":"a\\u0000b"}'},
    "a kind of nothing": {"data": "{}", "partition": 0, "headers": '{"ce_type":""}'},
}
SQLITE_BAD: dict[str, dict[str, Any]] = {
    "bytes that are no UTF-8": {"data": b'{"a":"\xff"}', "partition": 0},
    "a key in bytes that are no UTF-8": {"data": "{}", "partition": 0, "key": b"\xff"},
    "headers in bytes that are no UTF-8": {"data": "{}", "partition": 0, "headers": b'{"a":"\xff"}'},
    "a partition that is no number": {"data": "{}", "partition": "first"},
    "a partition in bytes": {"data": "{}", "partition": b"\x00"},
    "half a partition": {"data": "{}", "partition": 0.5},
}


def good(n: int) -> dict[str, Any]:
    return {"data": f'{{"n":{n}}}', "partition": 0}


@pytest.mark.parametrize("name", ["sqlite_url", "migrated_postgres_url"], ids=["sqlite", "postgres"])
def test_row_that_cannot_be_published_is_rejected_alone(request: pytest.FixtureRequest, name: str) -> None:
    url = request.getfixturevalue(name)
    bad = BAD | (SQLITE_BAD if name == "sqlite_url" else {})
    with hub_on(url, partitions=1) as hub, service(url) as (database, connection):
        for n, row in enumerate(bad.values()):
            for each in (good(n), row, row):
                database.insert(connection, NAME, **each)
        database.insert(connection, "unheard.of", "{}")
        connection.commit()

        hub.log.publish(NAME, [event({"n": "published"})])

        assert [each["n"] for each in feed(hub)] == [*range(len(bad)), "published"]
        hub.log.settle("unheard.of")
        rejected = rows_of(url, "SELECT event_type, reason FROM penstock_rejected ORDER BY id")
        assert [name for name, _ in rejected] == [NAME] * 2 * len(bad) + ["unheard.of"]
        assert all(reason for _, reason in rejected), rejected
        assert "unheard.of" in rejected[-1][1]
        assert_outbox_is_empty(url, rejected=len(rejected))


def test_outbox_data_in_bytes_is_published_as_text(sqlite_url: str) -> None:
    """SQLite keeps bytes as bytes: a service that inserts encoded JSON means no harm."""
    with hub_on(sqlite_url, partitions=1) as hub, service(sqlite_url) as (database, connection):
        database.insert(connection, NAME, '{"n":"ü"}'.encode(), key=b"k", headers=b'{"h":"1"}', partition=0)
        connection.commit()

        assert feed(hub) == [{"n": "ü"}]
        stored = rows_of(sqlite_url, "SELECT key, headers, typeof(data) FROM penstock_event")
        assert stored == [("k", '{"h":"1"}', "text")]


def test_business_row_without_valid_metadata_is_rejected_alone(url: str) -> None:
    with hub_on(url, partitions=1, category="business") as hub, service(url) as (database, connection):
        for n, metadata in ((1, EID), (2, '"eid":"x"'), (3, EID)):
            database.insert(connection, NAME, f'{{"n":{n},"metadata":{{{metadata}}}}}', partition=0)
        connection.commit()

        assert [each["n"] for each in feed(hub)] == [1, 3]
        assert_outbox_is_empty(url, rejected=1)


REFUSING = {
    "sqlite": [
        """CREATE TRIGGER refusing BEFORE INSERT ON penstock_event WHEN NEW.data LIKE '%poison%'
           BEGIN SELECT RAISE(ABORT, 'poison'); END"""
    ],
    "postgres": [
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF NEW.data LIKE '%poison%' THEN RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$""",
        "CREATE TRIGGER refusing BEFORE INSERT ON penstock_event FOR EACH ROW EXECUTE FUNCTION refuse()",
    ],
}


def refuse_poison(url: str) -> None:
    """Let the log refuse some events, for a reason that no check before can know."""
    for sql in REFUSING[url.partition(":")[0].removesuffix("ql")]:
        with service(url) as (_, connection):
            connection.execute(sql)
            connection.commit()


def test_row_that_the_log_refuses_is_rejected_alone_by_several_hubs_at_once(hub: Hub, other: Hub, url: str) -> None:
    refuse_poison(url)
    count = 0
    for _ in range(4):
        with service(url) as (database, connection):
            for n in range(12):
                is_poison = n in (3, 4, 9)
                database.insert(connection, NAME, json.dumps({"n": count, "x": "poison" * is_poison}), partition=0)
                count += not is_poison
            connection.commit()
        together([lambda each=each: each.log.settle(NAME) for each in (hub, other, hub)])  # type: ignore[misc]

    assert [each["n"] for each in feed(hub)] == list(range(count))
    rejected = rows_of(url, "SELECT data, reason FROM penstock_rejected")
    assert len(rejected) == 4 * 3
    assert all("poison" in data and "poison" in reason for data, reason in rejected)
