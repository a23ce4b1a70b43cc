import threading
from contextlib import ExitStack, closing
from random import Random
from typing import Any

from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.store_contract import database_at
from tests.promises.scene import NAME, Follower, Remote, commit_to_outbox, feed, hub_on, rows_of, seeded, until

SERVICES = 3


def test_every_committed_row_is_published_once_while_hubs_are_killed(database_url: str) -> None:
    """Two hub processes move at once and are killed in turn; services commit, and roll back, whenever they like."""
    chance = seeded()
    stop = threading.Event()
    with live_hub(database_url) as hub, live_hub(database_url) as other:
        with closing(Remote(hub.port)) as remote:
            remote.create()
        committed: list[list[Any]] = [[] for _ in range(SERVICES)]
        services = [
            threading.Thread(
                target=_serve, args=(database_url, who, Random(chance.getrandbits(32)), committed[who], stop)
            )
            for who in range(SERVICES)
        ]
        for each in services:
            each.start()
        try:
            for n in range(6):
                victim = (hub, other)[n % 2]
                _read_some(victim, chance.randint(0, 5))
                victim.kill()
                victim.start()
        finally:
            stop.set()
            for each in services:
                each.join()
        with closing(Remote(hub.port)) as remote:
            found = remote.all()

        assert sorted(map(_mark, found)) == sorted(_mark(each) for rows in committed for each in rows)
        for who, rows in enumerate(committed):  # One service's transactions follow each other, and so do their events.
            assert [each for each in found if each["by"] == who] == rows
    assert rows_of(database_url, "SELECT count(*) FROM penstock_outbox")[0][0] == 0
    assert rows_of(database_url, "SELECT count(*) FROM penstock_rejected")[0][0] == 0


def test_hubs_that_move_at_once_share_no_row(database_url: str) -> None:
    with ExitStack() as stack:
        hub = stack.enter_context(hub_on(database_url, partitions=1))
        hubs = [hub, *(stack.enter_context(hub_on(database_url)) for _ in range(3))]
        rows = [{"n": n} for n in range(2000)]
        for at in range(0, len(rows), 50):
            commit_to_outbox(database_url, *rows[at : at + 50])
            reading = [threading.Thread(target=each.settle, args=(NAME,)) for each in hubs]
            for each in reading:
                each.start()
            for each in reading:
                each.join()

        assert feed(hub) == rows


def test_rows_that_are_committed_in_any_order_are_all_there_at_once(postgres_url: str) -> None:
    """Transactions of several services overlap in every way; whatever has been committed shows in the next read."""
    chance = seeded()
    database = database_at(postgres_url)
    with hub_on(postgres_url, partitions=1) as hub, hub_on(postgres_url) as other, ExitStack() as stack:
        connections = [stack.enter_context(closing(database.connect())) for _ in range(5)]
        pending: list[list[int]] = [[] for _ in connections]
        committed: set[int] = set()
        followers = [Follower(hub), Follower(other)]
        for n in range(300):
            at = chance.randrange(len(connections))
            what = chance.choice(["insert", "insert", "commit", "rollback", "read"])
            if what == "insert":
                database.insert(connections[at], NAME, f'{{"n":{n}}}', partition=0)
                pending[at].append(n)
            elif what == "commit":
                connections[at].commit()
                committed |= set(pending[at])
                pending[at] = []
            elif what == "rollback":
                connections[at].rollback()
                pending[at] = []
            else:
                follower = chance.choice(followers)
                follower.page()
                assert sorted(each["n"] for each in follower.found[0]) == sorted(committed)

        assert sorted(each["n"] for each in feed(hub)) == sorted(committed)


def test_the_outbox_is_moved_when_nobody_reads(database_url: str) -> None:
    with hub_on(database_url, partitions=1):
        for n in range(3):
            commit_to_outbox(database_url, {"n": n})

            until(lambda: rows_of(database_url, "SELECT count(*) FROM penstock_outbox")[0][0] == 0, "it has been moved")
            assert rows_of(database_url, "SELECT count(*) FROM penstock_event")[0][0] == n + 1


def _serve(url: str, who: int, chance: Random, committed: list[Any], stop: threading.Event) -> None:
    database = database_at(url)
    with closing(database.connect()) as connection:
        n = 0
        while not stop.wait(0.002):
            n += 1
            rows = [{"by": who, "n": n, "i": i} for i in range(chance.randint(1, 5))]
            for row in rows:
                database.insert(connection, NAME, str(row).replace("'", '"'), partition=0)
            if chance.random() < 0.25:
                connection.rollback()
            else:
                connection.commit()
                committed += rows


def _read_some(hub: LiveHub, pages: int) -> None:
    remote = Remote(hub.port)
    for _ in range(pages):
        remote.page("_last")
    remote.close()


def _mark(each: Any) -> tuple[int, int, int]:
    return each["by"], each["n"], each["i"]
