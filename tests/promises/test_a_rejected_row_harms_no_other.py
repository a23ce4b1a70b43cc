import threading
from typing import Any

import pytest

from tests.promises.scene import NAME, event, feed, hub_on, rows_of, service

EID = '"eid":"7f3b1a3e-4b1c-4f57-9a3a-6f6a8c1b2c3d","occurred_at":"2020-01-01T00:00:00Z"'
GOOD = {"data": '{"n":"good"}', "partition": 0}

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


@pytest.mark.parametrize("what", [*BAD, *SQLITE_BAD])
def test_what_cannot_be_published_is_put_aside_alone(request: pytest.FixtureRequest, what: str) -> None:
    urls = ["sqlite_url"] if what in SQLITE_BAD else ["sqlite_url", "postgres_url"]
    for url in map(request.getfixturevalue, urls):
        _assert_put_aside(url, (BAD | SQLITE_BAD)[what])


def _assert_put_aside(url: str, bad: dict[str, Any]) -> None:
    with hub_on(url, partitions=1) as hub, service(url) as (database, connection):
        for row in (GOOD, bad, GOOD, bad, bad, GOOD):
            database.insert(connection, NAME, **row)
        connection.commit()

        hub.publish(NAME, [event({"n": "published"})])

        assert [each["n"] for each in feed(hub)] == ["good", "good", "good", "published"]
        rejected = rows_of(url, "SELECT event_type, reason FROM penstock_rejected ORDER BY id")
        assert [name for name, _ in rejected] == [NAME] * 3
        assert all(reason for _, reason in rejected), rejected
        assert rows_of(url, "SELECT count(*) FROM penstock_outbox")[0][0] == 0


def test_bytes_are_as_good_as_text_where_they_are_text(sqlite_url: str) -> None:
    """SQLite keeps bytes as bytes: a service that hands in encoded JSON means no harm."""
    with hub_on(sqlite_url, partitions=1) as hub, service(sqlite_url) as (database, connection):
        database.insert(connection, NAME, '{"n":"ü"}'.encode(), key=b"k", headers=b'{"h":"1"}', partition=0)
        connection.commit()

        assert feed(hub) == [{"n": "ü"}]
        assert rows_of(sqlite_url, "SELECT key, headers, typeof(data) FROM penstock_event") == [
            ("k", '{"h":"1"}', "text")
        ]


def test_rows_of_an_unknown_event_type_are_put_aside(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=1) as hub, service(migrated_url) as (database, connection):
        database.insert(connection, "unheard.of", "{}")
        database.insert(connection, NAME, **GOOD)
        connection.commit()

        assert feed(hub) == [{"n": "good"}]
        hub.settle("unheard.of")
        rejected = rows_of(migrated_url, "SELECT event_type, reason FROM penstock_rejected")
        assert [name for name, _ in rejected] == ["unheard.of"]
        assert "unheard.of" in rejected[0][1]


def test_a_business_row_without_its_metadata_is_put_aside(migrated_url: str) -> None:
    with (
        hub_on(migrated_url, partitions=1, category="business") as hub,
        service(migrated_url) as (database, connection),
    ):
        database.insert(connection, NAME, f'{{"n":1,"metadata":{{{EID}}}}}', partition=0)
        database.insert(connection, NAME, '{"n":2,"metadata":{"eid":"x"}}', partition=0)
        database.insert(connection, NAME, f'{{"n":3,"metadata":{{{EID}}}}}', partition=0)
        connection.commit()

        assert [each["n"] for each in feed(hub)] == [1, 3]
        assert rows_of(migrated_url, "SELECT count(*) FROM penstock_rejected")[0][0] == 1


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
    """Have the log itself refuse some events, for a reason that no check before could know."""
    for sql in REFUSING[url.partition(":")[0].removesuffix("ql")]:
        with service(url) as (_, connection):
            connection.execute(sql)
            connection.commit()


def test_a_row_that_the_log_refuses_is_put_aside_alone_by_several_hubs_at_once(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=1) as hub, hub_on(migrated_url) as other, hub_on(migrated_url) as third:
        refuse_poison(migrated_url)
        good = 0
        for _ in range(8):
            with service(migrated_url) as (database, connection):
                for n in range(12):
                    data = f'{{"n":{good},"x":"poison"}}' if n in (3, 4, 9) else f'{{"n":{good}}}'
                    good += "poison" not in data
                    database.insert(connection, NAME, data, partition=0)
                connection.commit()
            moving = [threading.Thread(target=each.settle, args=(NAME,)) for each in (hub, other, third)]
            for each in moving:
                each.start()
            for each in moving:
                each.join()

        assert [each["n"] for each in feed(hub)] == list(range(good))
        rejected = rows_of(migrated_url, "SELECT data, reason FROM penstock_rejected")
        assert len(rejected) == 8 * 3
        assert all("poison" in data and "poison" in reason for data, reason in rejected)
