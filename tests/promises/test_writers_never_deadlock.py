"""All kinds of writers at once, through two hubs on one PostgreSQL database: no deadlock, and nothing is lost."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from penstock.core.registry.event_type import StoredFeed
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.background import system_clock
from penstock.hub.batches.batches import digest_of
from penstock.hub.producers.producers import DAY_SECONDS
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.storage import Store, open_store
from penstock.storage.groups import Position
from penstock.storage.store import Tx
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import examples
from tests.promises.consuming import consume
from tests.promises.deadlocks import deadlocks_in
from tests.promises.scene import NAME, Remote, assert_dense, hub_on, rows_of, seeded, until, waiting_for_locks
from tests.store_contract.database import FIRST_AT, created, database_at, event_type

SECONDS = examples(2, 60)
MOST_SECONDS = 400.0
"""The limit until which the writers go on, on a slow machine, where too little has been done."""
PARTITIONS = 8
KEPT = [f"kept.{n}" for n in range(6)]
CHANGING = [f"changing.{n}" for n in range(6)]
REFUSALS = {404, 409, 410}
"""Statuses of requests to an event type that comes and goes."""
UNFIT = {409, 410, 412, 422}
"""Statuses of numbered batches, where others take over and producers expire."""
ENOUGH = {("POST", 200): examples(5, 10), ("BATCH", 200): examples(0, 3), ("COMMIT", 200): examples(1, 6)}
"""How often each must have been done to show anything: publishes, batches, their counts, commits of a consumer."""


class Work(NamedTuple):
    """A worker that does the same thing with other data until time is over."""

    hub: LiveHub
    database: str
    who: int
    chance: Random
    over: threading.Event
    said: Counter[tuple[str, int]]
    stored: set[str]
    """The ids of events that are surely in the log."""

    def ids(self, what: str) -> Iterator[str]:
        """Yield ids of the worker's own until time is over."""
        n = 0
        while not self.over.is_set():
            yield f"{what}-{self.who}-{n}"
            n += 1
            time.sleep(0.01)  # Else those who write most leave no time to those who do what happens least.

    def ask(self, remote: Remote, method: str, path: str, body: bytes | None = None) -> int:
        """Send a request, count its status, and assert that it may have that status."""
        return self.tell(remote, method, path, body)[0]

    def tell(
        self,
        remote: Remote,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        may: Iterable[int] = (),
    ) -> tuple[int, bytes]:
        """Do the same with further statuses that it *may* have; return the body, too."""
        status, answer, told = remote.ask(method, path, body, headers)
        self.said[method, status] += 1
        if status == 503:
            assert int(told["Retry-After"]) > 0
        else:
            assert status in (200, 201, *may, *(REFUSALS if "changing" in path + str(body) else ())), answer
        return status, answer


def publishes(work: Work) -> None:
    with closing(Remote(work.hub.port)) as remote:
        for mark in work.ids("published"):
            name = work.chance.choice(KEPT + CHANGING)
            partitions = [work.chance.randrange(PARTITIONS) for _ in range(work.chance.randint(1, 12))]
            lines = [{"data": {"id": f"{mark}.{n}"}, "partition": each} for n, each in enumerate(partitions)]
            status = work.ask(remote, "POST", f"/feeds/{name}", "\n".join(map(json.dumps, lines)).encode())
            if status == 200 and name in KEPT:
                work.stored.update(line["data"]["id"] for line in lines)


class Numbered:
    """A producer group of one worker: its next number in each partition, and the batches of unknown outcome."""

    def __init__(self, work: Work, remote: Remote) -> None:
        self.work = work
        self.remote = remote
        self.at: dict[str, tuple[int, int]] = {}
        self.uncertain: dict[str, list[str]] = {}

    def publish(self, name: str, partition: int, mark: str) -> None:
        """Publish a few events, or again those of unknown outcome; take over where the numbers do not fit."""
        path = f"/event-types/{name}/partitions/{partition}"
        epoch, sequence = self.at.get(path, (0, 0))
        ids = self.uncertain.pop(path, None) or [f"{mark}.{n}" for n in range(self.work.chance.randint(1, 12))]
        headers = {
            "Producer-Group": f"own-{self.work.who}",
            "Producer-Epoch": f"{epoch}",
            "Producer-Sequence": f"{sequence}",
        }
        body = json.dumps([{"id": each} for each in ids]).encode()
        status, answer = self.work.tell(self.remote, "POST", f"{path}/events", body, headers=headers, may=UNFIT)
        said = json.loads(answer)
        if status == 200:
            self.at[path] = (epoch, said["sequence"]["next"])
        elif status == 503:
            self.uncertain[path] = ids
        elif status != 404:
            self.take_over(path)
        if name in KEPT and (status == 200 or (status in UNFIT and said["committed"])):
            self.work.stored.update(ids)

    def take_over(self, path: str) -> None:
        asked = f"{path}/producers/own-{self.work.who}"
        status, answer = self.work.tell(self.remote, "PUT", asked)
        if status == 200:
            taken = json.loads(answer)
            self.at[path] = (taken["epoch"], taken["next_sequence"])


def publishes_numbered(work: Work) -> None:
    with closing(Remote(work.hub.port)) as remote:
        numbered = Numbered(work, remote)
        for mark in work.ids("numbered"):
            numbered.publish(work.chance.choice(KEPT[:1] + CHANGING), work.chance.randrange(PARTITIONS), mark)


def shares_a_group(work: Work) -> None:
    """Publishes, claims and forgets in groups that others use, too, and so is fenced again and again."""
    with closing(Remote(work.hub.port)) as remote:
        epochs: dict[str, int] = {}
        for mark in work.ids("shared"):
            name, partition = work.chance.choice(KEPT[:2]), work.chance.randrange(2)
            path = f"/event-types/{name}/partitions/{partition}"
            group = work.chance.choice(["shared.1", "shared.2"])
            one = f"{path}/producers/{group}"
            does = work.chance.random()
            if does < 0.3:
                status, answer = work.tell(remote, "PUT", one, b'{"pinned":true}' if does < 0.1 else None)
                epochs[one] = json.loads(answer)["epoch"] if status == 200 else 0
            elif does < 0.4:
                work.tell(remote, "DELETE", one, may=(204, 404))
            elif does < 0.5:
                work.tell(remote, "GET", f"{path}/producers", may=(404,))
            else:
                headers = {"Producer-Group": group, "Producer-Epoch": f"{epochs.get(one, 0)}", "Producer-Sequence": "0"}
                body = json.dumps([{"id": mark}]).encode()
                status, _ = work.tell(remote, "POST", f"{path}/events", body, headers=headers, may=UNFIT)
                if status == 200:
                    work.stored.add(mark)


def stages(work: Work) -> None:
    """Uploads events and publishes them as batches, some of them twice at once."""
    with closing(Remote(work.hub.port)) as remote:
        for number, mark in enumerate(work.ids("staged")):
            name = work.chance.choice(KEPT[:3] * 4 + CHANGING)  # Few are there long enough.
            named = {"producer_group": f"staged-{work.who}", "batch": number, "query": "q"}
            path = f"/event-types/{name}"
            status, answer = work.tell(remote, "POST", f"{path}/uploads", json.dumps(named).encode(), may=(409,))
            if status != 201:
                continue
            upload = json.loads(answer)["upload"]
            at = [(f"{mark}.{n}", work.chance.randrange(PARTITIONS)) for n in range(work.chance.randint(1, 12))]
            body = "\n".join(json.dumps({"data": {"id": each}, "partition": where}) for each, where in at).encode()
            chunk, lines = f"{path}/uploads/{upload}/chunks/0", {"Content-Type": "application/x-ndjson"}
            status, answer = work.tell(remote, "PUT", chunk, body, headers=lines, may=(404, 409))
            if status != 200:
                continue
            digest = digest_of(bytes.fromhex(json.loads(answer)["digest"])).hex()
            part = {"upload": upload, "chunks": 1, "events": len(at), "digest": digest}
            wanted = json.dumps({"query": "q", "uploads": [part]}).encode()
            batch = f"{path}/producers/staged-{work.who}/batches/{number}"
            with closing(Remote(work.hub.port)) as other, ThreadPoolExecutor(1) as beside:
                told = beside.submit(work.tell, other, "PUT", batch, wanted, may=(404, 409, 412))
                status, _ = work.tell(remote, "PUT", batch, wanted, may=(404, 409, 412))
                said = {status, told.result()[0]}
            work.said["BATCH", min(said)] += 1
            if name in KEPT and 200 in said:
                work.stored.update(each for each, _ in at)


def sweeps(work: Work) -> None:
    """Lets producers expire as after a week, or be forgotten as after two months."""
    with closing(open_store(work.database)) as store:
        for _ in work.ids("sweep"):
            ahead = work.chance.choice([8, 60]) * DAY_SECONDS * 1_000_000
            sweeper = Sweeper(store, lambda ahead=ahead: system_clock() + ahead)  # type: ignore[misc]
            while (sweeper._expire_some() or sweeper._remove_some()) and not work.over.is_set():
                pass
            time.sleep(work.chance.choice([0.05, 0.05, 1.0, 2.0]))  # Else slow machines never end with a staged batch.


def commits_to_the_outbox(work: Work) -> None:
    database = database_at(work.database)
    with closing(database.connect()) as connection:
        for mark in work.ids("outbox"):
            names = work.chance.sample(KEPT + CHANGING, 5)
            for name in names:
                event = json.dumps({"id": f"{mark}.{name}"})
                database.insert(connection, name, event, partition=work.chance.randrange(PARTITIONS))
            connection.commit()
            work.stored.update(f"{mark}.{name}" for name in names if name in KEPT)


def keeps_cursors(work: Work) -> None:
    with closing(Remote(work.hub.port)) as remote:
        for _ in work.ids("cursors"):
            name = work.chance.choice(KEPT + CHANGING)
            n = work.chance.choice([PARTITIONS, PARTITIONS // 2])
            wanted = work.chance.sample(range(n), work.chance.randint(2, n))
            cursors = "&".join(f"cursor{partition}=_last" for partition in wanted)
            cursorset = work.chance.choice(["first", "second"])
            path = f"/feeds/{name}?n={n}&{cursors}&cursorset={cursorset}&pagesizehint=0"
            work.ask(remote, "GET", path)


def changes_event_types(work: Work) -> None:
    with closing(Remote(work.hub.port)) as remote:
        for _ in work.ids("change"):
            name = work.chance.choice(CHANGING)
            if work.chance.random() < 0.5:
                work.ask(remote, "DELETE", f"/event-types/{name}")
            else:
                work.ask(remote, "POST", "/event-types", definition(name))
            time.sleep(0.05)  # Else no publish is ever prepared for the event types as they are.


def restores(work: Work) -> None:
    """Declares that a backup was put back, as `penstock restored` does."""
    with hub_on(work.database) as hub:
        for _ in work.ids("restored"):
            hub.registry.raise_epochs()
            time.sleep(1.0)  # Else publishers do nothing but make ready again what they publish.


def subscribes(work: Work) -> None:
    did: Counter[str] = Counter()
    with hub_on(work.database) as hub:
        for _ in work.ids("subscribes"):
            consume(hub, [*KEPT, *CHANGING, "nakadi.audit.log"], work.chance, did)
            work.said["COMMIT", 200] += did.pop("committed", 0)
            time.sleep(0.1)  # Else this process does nothing else.


def changes_settings(work: Work) -> None:
    """Blocks and unblocks an application that nobody is, and adds partitions to the logs of changes."""
    logs = ("nakadi.audit.log", "nakadi.event.type.log", "nakadi.subscription.log")
    with closing(Remote(work.hub.port)) as remote:
        for _ in work.ids("settings"):
            method = work.chance.choice(["PUT", "DELETE"])
            work.tell(remote, method, "/settings/blacklist/PRODUCER_APP/nobody", may=(204,))
            if work.chance.random() < 0.2:
                body = json.dumps({"partition_count": work.chance.randint(1, PARTITIONS)}).encode()
                path = f"/event-types/{work.chance.choice(logs)}/partition-count"
                work.tell(remote, "PUT", path, body, may=(204, 422))
            time.sleep(0.1)


def grows_the_dead_letters(work: Work) -> None:
    """Adds partitions to the event type of dead letters, or drops it where no subscription reads it."""
    with closing(Remote(work.hub.port)) as remote:
        for _ in work.ids("grown"):
            path = f"/event-types/{DEAD_LETTERS}"
            if work.chance.random() < 0.2:
                work.tell(remote, "DELETE", path, may=(404, 409))
            body = json.dumps({"partition_count": work.chance.randint(1, PARTITIONS)}).encode()
            work.tell(remote, "PUT", f"{path}/partition-count", body, may=(204, 404, 422))
            time.sleep(0.1)


WORKERS: list[tuple[Callable[[Work], None], int]] = [
    (publishes, 4), (commits_to_the_outbox, 2), (keeps_cursors, 2), (changes_event_types, 2), (restores, 1),
    (publishes_numbered, 3), (shares_a_group, 4), (sweeps, 2), (subscribes, 2), (grows_the_dead_letters, 1),
    (changes_settings, 2),
    (stages, 4),
]  # fmt: skip


def missing_work(said: Counter[tuple[str, int]]) -> list[str]:
    """Return what was not done often enough; UNFIT: no batch was refused by its numbers yet."""
    lacks = [what for (what, status), count in ENOUGH.items() if said[what, status] <= count]
    return lacks if any(said["POST", each] for each in UNFIT) else [*lacks, "UNFIT"]


def test_writers_of_all_kinds_at_once_never_deadlock(
    postgres_cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    chance = seeded()
    over = threading.Event()
    said: Counter[tuple[str, int]] = Counter()
    stored: set[str] = set()
    log = tmp_path / "hub.log"
    with live_hub(postgres_url, log=log) as first, live_hub(postgres_url, log=log) as second:
        with closing(Remote(first.port)) as remote:
            for name in KEPT + CHANGING:
                assert remote.ask("POST", "/event-types", definition(name))[0] == 201
            for feature in ("audit_log_collection", "kpi_collection"):
                switch = json.dumps({"feature": feature, "enabled": True}).encode()
                assert remote.ask("POST", "/settings/features", switch)[0] == 204
        tasks = [task for task, count in WORKERS for _ in range(examples((count + 1) // 2, count))]
        with deadlocks_in(postgres_cluster.log) as deadlocks, ThreadPoolExecutor(len(tasks)) as threads:
            doing = [
                threads.submit(task, Work(hub, postgres_url, who, Random(chance.random()), over, said, stored))
                for who, (task, hub) in enumerate(zip(tasks, [first, second] * len(tasks), strict=False))
            ]
            latest = time.monotonic() + MOST_SECONDS
            over.wait(SECONDS)
            while missing_work(said) and not any(each.done() for each in doing) and time.monotonic() < latest:
                over.wait(0.1)
            over.set()
            for each in doing:
                each.result()
        with closing(Remote(second.port)) as remote:
            found = [each["id"] for name in KEPT for each in whole(remote, name)]

    assert not deadlocks(), f"{deadlocks()} after {dict(said)}"
    assert len(found) == len(set(found)), "an event is there twice"
    assert stored <= set(found), "an event that was told to be stored is lost"
    assert not missing_work(said), f"not enough of {missing_work(said)}: {dict(said)}"
    assert_dense(postgres_url)


@pytest.fixture
def store(migrated_postgres_url: str) -> Iterator[Store]:
    with closing(open_store(migrated_postgres_url)) as store:
        yield store


def test_restoring_locks_event_types_in_the_order_of_appends(store: Store, migrated_postgres_url: str) -> None:
    url = migrated_postgres_url
    with ThreadPoolExecutor(2) as threads:
        first, middle, last = (created(store, name) for name in ("first", "middle", "last"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE INDEX backwards ON penstock_event_type (id DESC)")
            connection.execute("CLUSTER penstock_event_type USING backwards")
        lying = [name for (name,) in rows_of(url, "SELECT name FROM penstock_event_type ORDER BY ctid")]
        assert lying == ["last", "middle", "first"], "this shows nothing: they lie in the order of their ids"

        def append(*feeds: StoredFeed) -> None:
            with store.write() as tx:
                tx.log.find_heads(sorted(feed.partition_ids[0] for feed in feeds), lock=True)

        def restore() -> None:
            with store.write() as tx:
                tx.registry.raise_epochs()

        with store.write() as tx:
            tx.log.find_heads(middle.partition_ids, lock=True)
            doing = [threads.submit(restore)]
            until(lambda: waiting_for_locks(url) == 1, "restoring waits for the append under way")
            doing.append(threads.submit(append, first, last))
            until(lambda: waiting_for_locks(url) == 2, "the next append waits for restoring")
        for each in doing:
            each.result()


def test_restoring_does_not_wait_for_event_types_that_are_created_meanwhile(
    store: Store, migrated_postgres_url: str
) -> None:
    url = migrated_postgres_url
    with ThreadPoolExecutor(2) as threads:
        first, last = created(store, "first"), created(store, "last")

        def restore() -> None:
            with store.write() as tx:
                tx.registry.raise_epochs()

        def append(feed: StoredFeed, other: StoredFeed) -> None:
            with store.write() as tx:
                tx.log.find_heads(feed.partition_ids, lock=True)
                tx.log.find_heads(other.partition_ids, lock=True)

        with store.write() as tx:
            tx.log.find_heads(last.partition_ids, lock=True)
            doing = [threads.submit(restore)]
            until(lambda: waiting_for_locks(url) == 1, "restoring waits for the append under way")
            doing.append(threads.submit(append, created(store, "newest"), first))
            until(lambda: waiting_for_locks(url) == 2, "the next append waits for restoring")
        for each in doing:
            each.result()


def test_dropping_locks_cursors_in_the_order_in_which_they_are_stored(store: Store, migrated_postgres_url: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        created(store, NAME)

        def keep(tx: Tx, slice: str) -> None:
            tx.groups.lock("mine", kind="cursorset", shared=True)
            tx.groups.put("mine", [Position(NAME, slice, 0, 1, 0)], 0)

        def drop() -> bool:
            with store.write() as tx:
                return tx.registry.delete(NAME)

        for place in ("2/1", "2/0"):  # So they lie the other way round.
            with store.write() as tx:
                keep(tx, place)
        with store.write() as tx:
            keep(tx, "2/0")
            dropping = threads.submit(drop)
            until(
                lambda: waiting_for_locks(migrated_postgres_url) == 1,
                "dropping waits for the cursor that is being kept",
            )
            keep(tx, "2/1")
        assert dropping.result()


def test_drop_that_waited_for_another_drop_spares_the_recreated_event_type(
    store: Store, migrated_postgres_url: str
) -> None:
    with ThreadPoolExecutor(1) as threads:
        created(store, NAME)

        def drop() -> bool:
            with store.write() as tx:
                return tx.registry.delete(NAME)

        with store.write() as tx:
            assert tx.registry.delete(NAME)
            tx.registry.insert(event_type(NAME, 3), FIRST_AT)
            dropping = threads.submit(drop)
            until(lambda: waiting_for_locks(migrated_postgres_url) == 1, "the second waits for the first")
        assert not dropping.result()
        with store.read() as tx:
            feed = tx.registry.find(NAME)
    assert feed is not None
    assert len(feed.partition_ids) == 3


def definition(name: str) -> bytes:
    return json.dumps(an_event_type(name, partition_strategy="user_defined", partition_count=PARTITIONS)).encode()


def whole(remote: Remote, name: str) -> list[Any]:
    """Return the events of all partitions of a feed once its outbox is moved."""
    until(lambda: remote.ask("GET", f"/event-types/{name}/partitions")[0] == 200, f"the outbox of {name} is moved")
    remote.path = f"/feeds/{name}"
    return [each for partition in range(PARTITIONS) for each in remote.all(partition, PARTITIONS)]
