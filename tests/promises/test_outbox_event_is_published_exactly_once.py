"""A committed row of the outbox is published once, whichever hubs move it and whichever of them are killed."""

import threading
from contextlib import ExitStack, closing
from random import Random
from typing import Any

from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import examples
from tests.producing import together
from tests.promises.scene import (
    NAME,
    Follower,
    Remote,
    assert_outbox_is_empty,
    commit_to_outbox,
    feed,
    hub_on,
    seeded,
)
from tests.store_contract import database_at

SERVICES = 3


def test_every_committed_row_is_published_once_while_hubs_are_killed(url: str) -> None:
    """Two hub processes move at once and are killed in turn; services commit and roll back beside them."""
    chance = seeded()
    stop = threading.Event()
    with live_hub(url) as hub, live_hub(url) as other:
        with closing(Remote(hub.port)) as remote:
            remote.create()
        committed: list[list[Any]] = [[] for _ in range(SERVICES)]
        services = [
            threading.Thread(target=_serve, args=(url, who, Random(chance.getrandbits(32)), committed[who], stop))
            for who in range(SERVICES)
        ]
        for each in services:
            each.start()
        try:
            for n in range(examples(3, 12)):
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
    assert_outbox_is_empty(url)


def test_hubs_that_move_at_once_share_no_row(url: str) -> None:
    with ExitStack() as stack:
        hub = stack.enter_context(hub_on(url, partitions=1))
        hubs = [hub, *(stack.enter_context(hub_on(url)) for _ in range(3))]
        rows = [{"n": n} for n in range(examples(500, 2000))]
        for at in range(0, len(rows), 50):
            commit_to_outbox(url, *rows[at : at + 50])
            together([lambda each=each: each.log.settle(NAME) for each in hubs])  # type: ignore[misc]

        assert feed(hub) == rows


def test_next_read_shows_all_commits_of_overlapping_transactions(migrated_postgres_url: str) -> None:
    chance, url = seeded(), migrated_postgres_url
    database = database_at(url)
    with hub_on(url, partitions=1) as hub, hub_on(url) as other, ExitStack() as stack:
        connections = [stack.enter_context(closing(database.connect())) for _ in range(5)]
        pending: list[list[int]] = [[] for _ in connections]
        committed: set[int] = set()
        followers = [Follower(hub), Follower(other)]
        for n in range(examples(150, 600)):
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
