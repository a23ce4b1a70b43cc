"""A publish from inside a transaction on the same SQLite file would wait for itself, and is refused."""

import pytest

import penstock.outbox
from penstock.errors import WrongTransaction
from tests.failing import has_code
from tests.promises.processes import FORKSERVER, hold_the_file, run_processes
from tests.promises.scene import NAME, Follower, event, feed, hub_on, service


def test_publish_inside_a_write_transaction_is_refused_with_advice(sqlite_url: str) -> None:
    with hub_on(sqlite_url, starts=False, partitions=1) as hub, service(sqlite_url) as (_, connection):
        connection.execute("CREATE TABLE state (n INTEGER)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO state VALUES (1)")

        with pytest.raises(WrongTransaction, check=has_code("inside-transaction")) as refused:
            hub.log.publish(NAME, [event({"n": 1})])

        assert "penstock.outbox.publish" in str(refused.value)
        penstock.outbox.publish(connection, NAME, {"n": 2}, partition=0)  # As it advises.
        connection.commit()
        hub.log.publish(NAME, [event({"n": 3})])
        assert [each["n"] for each in feed(hub)] == [2, 3]
        assert connection.execute("SELECT count(*) FROM state").fetchone() == (1,)


def test_publish_inside_a_read_transaction_is_stored(sqlite_url: str) -> None:
    with hub_on(sqlite_url, partitions=1) as hub, service(sqlite_url) as (_, connection):
        connection.isolation_level = None
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM penstock_event").fetchone()

        assert hub.log.publish(NAME, [event({"n": 1})]).next_offsets == {0: 1}


def test_publish_waits_for_another_process_that_holds_the_file(sqlite_url: str) -> None:
    held, release = FORKSERVER.Event(), FORKSERVER.Event()
    with hub_on(sqlite_url, partitions=1) as hub:
        path = sqlite_url.removeprefix("sqlite:///")
        with run_processes(hold_the_file, (path, held, release)):
            assert held.wait(300)
            waiting = hub.log.submit(NAME, [event({"n": 1})])
            with pytest.raises(TimeoutError):
                waiting.result(1.5)  # Longer than it takes to be asked who holds the file.
            assert Follower(hub).page() == 0
            release.set()

            assert waiting.result(300).next_offsets == {0: 1}
