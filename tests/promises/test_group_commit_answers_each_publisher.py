"""Publishes that are committed together share a transaction and nothing else: each has its own answer."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import filterfalse
from typing import Any

import pytest

from penstock.errors import EventTypeNotFound
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.storage.store import Tx
from tests.promises.scene import NAME, create, event, feed, hub_on, rows_of, service, until
from tests.promises.test_rejected_row_harms_no_other import refuse_poison

MANY = 30
FAILING_AT_COMMIT = {
    "sqlite": [
        "CREATE TABLE wanting (n INTEGER REFERENCES penstock_event_type (id) DEFERRABLE INITIALLY DEFERRED)",
        """CREATE TRIGGER failing AFTER INSERT ON penstock_event WHEN NEW.data LIKE '%poison%'
           BEGIN INSERT INTO wanting VALUES (-1); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF NEW.data LIKE '%poison%' THEN RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$""",
        """CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON penstock_event DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION fail()""",
    ],
}


@contextmanager
def block_committer(hub: Hub, url: str) -> Iterator[Tx]:
    """Keep the committer from committing while the block runs: publishes submitted in it become a group."""
    with closing(open_store(url)) as store, store.write() as tx:
        tx.log.find_heads(sorted(part for each in hub.registry.list() for part in each.partition_ids), lock=True)
        first = hub.log.submit("first.one", [event({"n": "first"})])
        until(first.running, "the committer waits with this one")
        yield tx


@pytest.fixture
def hub(url: str) -> Iterator[Hub]:
    with hub_on(url, partitions=1) as hub:
        create(hub, "first.one")
        yield hub


def is_bad(n: int) -> bool:
    return n % 7 == 3


def submit_many(hub: Hub, url: str, then: Callable[[list[Any]], None] = lambda _: None) -> list[Any]:
    """Submit many publishes as one group, some of them bad; return their results, or the errors in their place."""
    with block_committer(hub, url):
        submitted = [hub.log.submit(NAME, [event({"n": n, "x": "poison" * is_bad(n)})]) for n in range(MANY)]
        then(submitted)
    return [None if each.cancelled() else each.exception(300) or each.result() for each in submitted]


def test_publishers_share_a_transaction(hub: Hub, url: str) -> None:
    results = submit_many(hub, url)

    assert [each.next_offsets for each in results] == [{0: n + 1} for n in range(MANY)]
    assert [each["n"] for each in feed(hub)] == list(range(MANY))
    times = rows_of(url, "SELECT count(DISTINCT received_at) FROM penstock_event")[0][0]
    assert times <= 3  # Not one for each.


@pytest.mark.parametrize("moment", ["statement", "commit"])
def test_publish_that_the_log_refuses_fails_alone(hub: Hub, url: str, moment: str) -> None:
    """Also if the log refuses it only at the commit: no publisher has been answered before that."""
    if moment == "statement":
        refuse_poison(url)
    else:
        with service(url) as (_, connection):
            for sql in FAILING_AT_COMMIT[url.partition(":")[0]]:
                connection.execute(sql)
            connection.commit()

    results = submit_many(hub, url)

    refused = [n for n, each in enumerate(results) if isinstance(each, Exception)]
    assert refused == list(filter(is_bad, range(MANY)))
    assert all(re.search("(?i)poison|constraint", str(results[n])) for n in refused)
    assert [each["n"] for each in feed(hub)] == list(filterfalse(is_bad, range(MANY)))


def test_publisher_that_cancels_harms_no_other(hub: Hub, url: str) -> None:
    def cancel(submitted: list[Any]) -> None:
        assert all(each.cancel() for each in submitted[::3])

    results = submit_many(hub, url, cancel)

    assert [n for n, each in enumerate(results) if each is None] == list(range(0, MANY, 3))
    hub.log.publish(NAME, [event({"n": "after"})])
    assert [each["n"] for each in feed(hub)] == [*(n for n in range(MANY) if n % 3), "after"]


def test_publishes_to_an_event_type_dropped_before_the_commit_fail_alone(hub: Hub, url: str) -> None:
    create(hub, "kept.one")
    with block_committer(hub, url) as tx:
        lost = [hub.log.submit(NAME, [event({"n": n})]) for n in range(3)]
        kept = [hub.log.submit("kept.one", [event({"n": n})]) for n in range(3)]
        tx.registry.delete(NAME)

    for each in lost:
        with pytest.raises(EventTypeNotFound):
            each.result(300)
    assert [each.result(300).next_offsets for each in kept] == [{0: 1}, {0: 2}, {0: 3}]
