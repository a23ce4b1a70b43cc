"""Categories of a MessageDB as a source: no event is skipped, whichever transaction ends first."""

import threading
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from penstock.errors import BadParameter, DatabaseUnavailable
from penstock.processing import InlineProcessor, LocalProcessor, Rules
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.sources import MessagedbSource, ReadRequest
from tests.exhaustive import examples
from tests.processing.office import until
from tests.processing.source_places import write
from tests.spark.message_db import message_databases, message_db_url

__all__ = ["message_databases", "message_db_url"]


def connected(url: str) -> Any:
    return psycopg.connect(url, options="-c search_path=message_store")


def test_event_has_all_that_the_store_has_of_it(message_db_url: str) -> None:
    with connected(message_db_url) as connection:
        write(connection, "account-7+1", {"n": 1}, {"trace": "a1", "n": 1.0, "none": None})
        write(connection, "account", None)
        write(connection, "accounts-7", {"n": 3})
        times = [time for (time,) in connection.execute("SELECT time FROM messages ORDER BY global_position")]
    with MessagedbSource(message_db_url, "account") as source:
        [batch] = source.read({"account": ReadRequest(1, 10)}, 0.0)
    first, second = batch.items
    assert (first.stream, first.index, first.kind, first.key) == ("account-7+1", 0, "Added", "7+1")  # type: ignore[attr-defined]
    assert (first.data, first.headers) == ({"n": 1}, {"trace": "a1", "n": "1.0"})  # type: ignore[attr-defined]
    assert (first.tranche, first.received_at, first.numbering) == ("account", times[0].replace(tzinfo=UTC), "")  # type: ignore[attr-defined]
    assert (second.stream, second.key, second.data, second.headers) == ("account", None, None, {})  # type: ignore[attr-defined]
    assert batch.end == 3


def test_open_transaction_of_another_category_is_not_passed_over(message_db_url: str) -> None:
    seen: list[tuple[str, int]] = []

    def see(stream: str, events: Any) -> None:
        seen.extend((stream, event.data["n"]) for event in events)

    checkpoints = MemoryCheckpoints()
    with MessagedbSource(message_db_url, "account", "payment") as source:
        processor = InlineProcessor(see, source, checkpoints=checkpoints)
        with connected(message_db_url) as late:
            write(late, "account-1", {"n": 1})  # It has the global position 1, which nobody sees yet.
            with connected(message_db_url) as early:
                write(early, "payment-1", {"n": 2})
            processor.drain()
            assert (seen, checkpoints.positions()) == ([("payment-1", 2)], {"account": 1, "payment": 3})
        processor.drain()
    assert (seen[1:], checkpoints.positions()) == ([("account-1", 1)], {"account": 2, "payment": 3})


def test_position_that_was_rolled_back_is_a_hole(message_db_url: str) -> None:
    with connected(message_db_url) as connection:
        write(connection, "account-1", {"n": 1})
        connection.rollback()
        write(connection, "account-1", {"n": 2})
    with MessagedbSource(message_db_url, "account") as source:
        [batch] = source.read({"account": ReadRequest(1, 10)}, 0.0)
    assert [(item.index, item.data) for item in batch.items] == [(0, {"n": 2})]  # type: ignore[attr-defined]
    assert batch.end == 3


def test_no_event_of_concurrent_writers_is_skipped_or_out_of_order(message_db_url: str) -> None:
    writers, each = 4, examples(60, 600)
    seen: dict[str, list[int]] = {}
    gaps: list[str] = []
    lock = threading.Lock()

    def see(stream: str, events: Any) -> None:
        with lock:
            found = seen.setdefault(stream, [])
            if events[0].index != len(found):
                gaps.append(f"{stream}: {events[0].index} after {len(found)}")
            found.extend(event.data["n"] for event in events)

    def write_some(writer: int) -> None:
        with connected(message_db_url) as connection:
            for n in range(each):
                write(connection, f"account-{writer}", {"n": n})
                write(connection, f"{'payment' if writer % 2 else 'account'}-{writer}+{n % 3}", {"n": n})
                if n % 5 == writer:
                    connection.rollback()
                elif n % 3 == 0:
                    connection.commit()

    threads = [threading.Thread(target=write_some, args=(writer,)) for writer in range(writers)]
    with LocalProcessor(see, MessagedbSource(message_db_url, "account", "payment")) as processor:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        processor.wait_until_caught_up(300)
    with connected(message_db_url) as connection:
        rows = connection.execute("SELECT stream_name, (data->>'n')::int FROM messages ORDER BY stream_name, position")
        wanted: dict[str, list[int]] = {}
        for stream, n in rows:
            wanted.setdefault(stream, []).append(n)
    assert (seen, gaps) == (wanted, [])


def test_streams_may_require_every_index(message_db_url: str) -> None:
    with connected(message_db_url) as connection:
        for n in range(20):
            write(connection, f"account-{n % 2}", {"n": n})
    seen: list[int] = []
    with MessagedbSource(message_db_url, "account") as source:
        InlineProcessor(
            lambda _, events: seen.extend(e.index for e in events), source, rules=Rules(require_all=True)
        ).drain()
    assert sorted(seen) == sorted([*range(10)] * 2)


def test_database_without_messagedb_is_refused(postgres_url: str) -> None:
    with (
        MessagedbSource(postgres_url, "account") as source,
        pytest.raises(BadParameter, match="MessageDB is installed"),
    ):
        source.read({"account": ReadRequest(1, 10)}, 0.0)


def test_database_that_is_away_can_be_asked_again(message_db_url: str) -> None:
    with closing(MessagedbSource("postgresql://nobody@127.0.0.1:1/events", "account")) as source:
        for ask in (lambda: source.read({"account": ReadRequest(1, 10)}, 0.0), lambda: source.behind({})):
            with pytest.raises(DatabaseUnavailable) as caught:
                ask()
            assert caught.value.retryable
    with MessagedbSource(message_db_url, "account") as source:
        assert source.read({"account": ReadRequest(1, 10)}, 0.0) == []
        with connected(message_db_url) as connection:
            write(connection, "account-1", {"n": 1})
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock-processing'"
            )
        found: list[Any] = []

        def has_come() -> bool:
            try:
                found.extend(source.read({"account": ReadRequest(1, 10)}, 0.0))
            except DatabaseUnavailable:
                return False
            return bool(found)

        until(has_come)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("sqlite:///events.db", "account"), {}, "url is '(not shown)'"),
        ((7, "account"), {}, "url is 7"),
        (("postgresql://localhost/events",), {}, "categories is (); allowed: the name of one category at least"),
        (("postgresql://localhost/events", "account-7"), {}, "what stands before the first - of a stream's name"),
        (("postgresql://localhost/events", ["account"]), {}, "not in a list: 'account', 'payment'"),
        (("postgresql://localhost/events", "account"), {"start": "first"}, "start is 'first'"),
        (("postgresql://localhost/events", "account"), {"start": datetime.fromisoformat("2026-01-01")}, "start is"),
        (("postgresql://localhost/events", "account"), {"schema": ""}, "schema is ''"),
    ],
)
def test_wrong_argument_of_a_messagedb_source_is_refused(arguments: Any, options: Any, said: str) -> None:
    with pytest.raises(BadParameter) as caught:
        MessagedbSource(*arguments, **options)
    assert said in str(caught.value)
