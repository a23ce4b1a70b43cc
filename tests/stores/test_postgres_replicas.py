"""Replicas of a PostgreSQL database: real hot standbys, which lag, are paused, lost, frozen and promoted."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg
import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from penstock.core.access import Caller
from penstock.errors import BadParameter, DatabaseUnsuitable
from penstock.hub.hub import Hub
from penstock.hub.log import read
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.storage import open_store
from penstock.storage.log.events import Frame, StoredLines
from penstock.storage.postgres import replicas
from penstock.storage.store import EventTx
from penstock.testing.postgres import PostgresCluster
from tests.promises.scene import NAME, Follower, event, hub_on, rows_of, until
from tests.standby import Standby, only_replica

LINES = Frame("", "\n", "")


@pytest.fixture(scope="module")
def shared_standby(postgres_cluster: PostgresCluster) -> Iterator[Standby]:
    """A hot standby of the cluster of this test run."""
    with Standby(postgres_cluster) as standby:
        yield standby


@pytest.fixture
def standby(shared_standby: Standby, postgres_url: str) -> Standby:
    """The hot standby, which runs and has replayed the test's database."""
    if not shared_standby.running:
        shared_standby.start()
    shared_standby.resume()
    shared_standby.catch_up()
    return shared_standby


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at replicas more often than in production, and have readers share no chunks."""
    monkeypatch.setattr(read, "SHARED_ROWS", -1)
    monkeypatch.setattr(replicas, "CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(replicas, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(replicas, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(replicas, "BEHIND_SECONDS", 0.0)


def url_on(cluster: PostgresCluster, url: str) -> str:
    """Return the URL of the database of *url* on another cluster."""
    return cluster.url(url.rpartition("/")[2])


@contextmanager
def hub_with(url: str, *standbys: PostgresCluster, **definition: object) -> Iterator[Hub]:
    """Run a hub with replicas that have the tables and the event type of the test."""
    with hub_on(url) as first:
        create_in(first, **definition)
    for each in standbys:
        if isinstance(each, Standby):
            each.catch_up()
    with hub_on(url, replicas=[url_on(each, url) for each in standbys]) as hub:
        until(lambda: all(each.is_used for each in measure(hub)), "the replicas are used")
        yield hub


def create_in(hub: Hub, **definition: object) -> None:
    """Create the event type of the test."""
    from tests.promises.scene import create

    create(hub, **definition)  # type: ignore[arg-type]


def measure(hub: Hub) -> Sequence[object]:
    """Return how the replicas of a hub do."""
    assert hub.store.replicas is not None
    return hub.store.replicas.measure()


def missed(hub: Hub) -> int:
    """Return how many chunks no replica has served."""
    assert hub.store.replicas is not None
    return hub.store.replicas.missed


def publish(hub: Hub, *numbers: int) -> None:
    """Publish numbers."""
    hub.log.publish(NAME, [event({"n": each}) for each in numbers])


def numbers_of(follower: Follower) -> list[int]:
    """Return the numbers that a reader has found up to the end."""
    return [each["n"] for each in follower.all()]


def numbers(hub: Hub) -> list[int]:
    """Return all numbers of the feed."""
    return numbers_of(Follower(hub))


# Whose reads


def test_replayed_events_are_read_from_the_replica(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(100))
        standby.catch_up()

        assert numbers(hub) == [*range(100)]

        assert (only_replica(hub.store).reads, missed(hub)) == (1, 0)


def test_reads_that_do_not_want_replicas_ask_the_primary(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        follower = Follower(hub)
        follower.uses_replicas = False

        assert numbers_of(follower) == [*range(10)]

        assert (only_replica(hub.store).reads, missed(hub)) == (0, 0)


def test_events_that_are_not_replayed_are_read_from_the_primary(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        follower = Follower(hub)
        follower.all()
        standby.pause()

        publish(hub, *range(10, 20))

        assert numbers_of(follower) == [*range(20)]
        assert numbers(hub) == [*range(20)]
        assert (only_replica(hub.store).reads, missed(hub)) == (1, 2)


def test_readers_at_the_head_do_not_ask_a_replica_that_is_behind(
    standby: Standby, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "BEHIND_SECONDS", 3600.0)
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        standby.pause()
        publish(hub, 10)
        assert numbers(hub) == [*range(11)]
        monkeypatch.setattr(replicas.Replica, "_has", lambda *_: pytest.fail("the replica was asked"))

        assert numbers(hub) == [*range(11)]


def test_next_replica_serves_what_the_first_one_lacks(
    standby: Standby, postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    with Standby(postgres_cluster) as other, hub_with(postgres_url, standby, other) as hub:
        standby.pause()
        publish(hub, *range(10))
        other.catch_up()

        assert [numbers(hub) for _ in range(2)] == [[*range(10)]] * 2

        assert missed(hub) == 0


def test_only_listed_callers_read_from_replicas_by_every_protocol(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        app = HubApp(lambda: hub, authentication=[TokenMethod()], administrators=["service:root"])
        publish(hub, *range(10))
        standby.catch_up()

        def client(name: str) -> TestClient:
            secret = hub.admin.tokens.create(Caller("service", name)).secret
            return TestClient(app, headers={"Authorization": f"Bearer {secret}"})

        with TestClient(app):
            readers = [{"data_type": "service", "value": "listed"}]
            assert client("root").put("/settings/replicas", json={"readers": readers}).status_code == 200
            for name, served in (("listed", 1), ("other", 0)):
                http = client(name)
                given = {"owning_application": name, "event_types": [NAME], "read_from": "begin"}
                subscription = http.post("/subscriptions", json=given).json()["id"]
                for path in (
                    f"/feeds/{NAME}?n=1&cursor0=_first",
                    f"/feeds/{NAME}?n=2&cursor0=_first",
                    f"/feeds/{NAME}/events?token=1-1&partition=0&cursor=_first",
                    f"/event-types/{NAME}/events?batch_limit=10&stream_limit=10",
                    f"/subscriptions/{subscription}/events?batch_limit=10&stream_limit=10&commit_timeout=1",
                ):
                    before = only_replica(hub.store).reads
                    headers = {"X-Nakadi-Cursors": '[{"partition": "0", "offset": "BEGIN"}]'}
                    answer = http.get(path, headers=headers)
                    assert answer.status_code == 200, answer.text
                    assert '"n"' in answer.text, path
                    assert only_replica(hub.store).reads - before == served, path
        assert missed(hub) == 0


# Lag, loss, pause


def test_replica_that_lags_too_much_is_not_used_until_it_has_caught_up(
    standby: Standby, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        monkeypatch.setattr(replicas, "LAG_MAX", 0.5)
        standby.pause()
        publish(hub, 10)
        until(lambda: not only_replica(hub.store).is_used, "the replica lags")
        monkeypatch.setattr(replicas, "LAG_MAX", 60.0)
        until(lambda: only_replica(hub.store).is_used, "a larger bound is not reached")
        lag = only_replica(hub.store).lag_seconds
        assert lag is not None
        assert lag >= 0.5
        standby.resume()
        standby.catch_up()

        until(lambda: (only_replica(hub.store).lag_seconds or 9) < lag / 2, "the replica has caught up")

        assert numbers(hub) == [*range(11)]
        assert only_replica(hub.store).reads == 1


def test_lost_replica_costs_no_reader_and_is_used_again(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        assert numbers(hub) == [*range(10)]
        standby.stop()
        publish(hub, 10)

        assert numbers(hub) == [*range(11)]
        until(lambda: not only_replica(hub.store).is_used, "the loss is noticed")
        assert numbers(hub) == [*range(11)]
        standby.start()
        standby.catch_up()
        until(lambda: only_replica(hub.store).is_used, "the replica is used again")
        assert numbers(hub) == [*range(11)]

        assert (only_replica(hub.store).reads, missed(hub)) == (2, 2)


def test_log_says_when_a_replica_goes_and_comes(standby: Standby, postgres_url: str) -> None:
    with capture_logs() as lines, hub_with(postgres_url, standby) as hub:
        standby.stop()
        until(lambda: not only_replica(hub.store).is_used, "the loss is noticed")
        standby.start()
        until(lambda: only_replica(hub.store).is_used, "the replica is used again")

    found = [(each["event"], each["replica"], "reason" in each) for each in lines if "replica" in each]
    url = url_on(standby, postgres_url).replace("postgres@", "")
    used, unused = ("a replica is used", url, False), ("a replica is not used: its reads go to the primary", url, True)
    assert found == [used, unused, used]


def test_frozen_replica_is_given_up(standby: Standby, postgres_url: str) -> None:
    with hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        assert numbers(hub) == [*range(10)]
        standby.freeze()
        try:
            assert numbers(hub) == [*range(10)]
            until(lambda: not only_replica(hub.store).is_used, "it is noticed")
            assert numbers(hub) == [*range(10)]
        finally:
            standby.thaw()
        until(lambda: only_replica(hub.store).is_used, "the replica is used again")


def test_replica_that_fails_reads_again_and_again_is_asked_less_often(
    standby: Standby, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_with(postgres_url, standby) as hub:
        pool = hub.store.replicas
        assert pool is not None
        publish(hub, 0)
        standby.catch_up()
        [partition_id] = hub.registry.load(NAME).partition_ids
        pauses = []
        monkeypatch.setattr(replicas.Replica, "_leave", lambda *given: pauses.append(given[-1]))

        def fail(_: EventTx) -> None:
            raise psycopg.OperationalError("the disk is slow")

        for _ in range(4):
            assert pool.read(partition_id, 0, 1, fail) is None
        assert numbers(hub) == [0]
        assert pool.read(partition_id, 0, 1, fail) is None

        assert pauses == [1, 2, 4, 8, 1]


def test_hub_starts_without_a_replica_that_is_away(standby: Standby, postgres_url: str) -> None:
    standby.stop()
    with hub_on(postgres_url, replicas=[url_on(standby, postgres_url)], partitions=1) as hub:
        publish(hub, 1)
        assert numbers(hub) == [1]
        standby.start()
        standby.catch_up()

        until(lambda: only_replica(hub.store).is_used, "the replica is used")

        assert numbers(hub) == [1]
        assert only_replica(hub.store).reads == 1


def test_read_that_recovery_cancels_goes_to_the_primary_and_the_next_one_not(
    postgres_cluster: PostgresCluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "PAUSE_SECONDS", 3600.0)
    with Standby(postgres_cluster, max_standby_streaming_delay="0") as standby, hub_with(postgres_url, standby) as hub:
        publish(hub, *range(10))
        standby.catch_up()
        pool = hub.store.replicas
        assert pool is not None
        [partition_id] = hub.registry.load(NAME).partition_ids
        began = threading.Event()

        def read_long(tx: EventTx) -> StoredLines:
            tx.log.read_lines(partition_id, 0, 10, LINES, None)
            began.set()
            tx.log._connection.execute("SELECT pg_sleep(120)")  # type: ignore[attr-defined]
            return tx.log.read_lines(partition_id, 0, 10, LINES, None)

        def vacuum() -> None:
            began.wait()
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("CREATE TABLE doomed AS SELECT 1 AS n")
                connection.execute("DROP TABLE doomed")
                connection.execute("VACUUM FULL penstock_event")

        thread = threading.Thread(target=vacuum)
        thread.start()

        assert pool.read(partition_id, 0, 10, read_long) is None

        thread.join()
        standby.catch_up()
        assert numbers(hub) == [*range(10)]
        assert only_replica(hub.store).reads == 1


# Removed events


def test_page_never_shows_events_that_a_replica_has_and_the_primary_has_erased(
    standby: Standby, postgres_url: str
) -> None:
    with hub_with(postgres_url, standby) as hub:
        hub.log.publish(NAME, [event({"n": n}, key=f"k{n % 2}") for n in range(10)])
        standby.catch_up()
        standby.pause()
        hub.erasures.request(NAME, "k0")
        until(lambda: rows_of(postgres_url, "SELECT count(*) FROM penstock_event") == [(5,)], "they are erased")

        assert numbers(hub) == [*range(1, 10, 2)]
        assert only_replica(hub.store).reads == 0

        standby.resume()
        standby.catch_up()
        assert numbers(hub) == [*range(1, 10, 2)]
        assert only_replica(hub.store).reads > 0


# Unsuitable servers


@pytest.mark.parametrize("replica", ["postgresql://me:secret@127.0.0.1/shop", "postgresql://me:secret@h/x?oops=secret"])
def test_replica_of_a_sqlite_database_is_refused_without_its_password(sqlite_url: str, replica: str) -> None:
    with pytest.raises(BadParameter, match="SQLite") as refused:
        open_store(sqlite_url, replicas=[replica])
    assert "secret" not in str(refused.value)


def test_malformed_url_of_a_replica_is_refused_without_its_password(postgres_url: str) -> None:
    with pytest.raises(BadParameter, match="replica") as refused:
        open_store(postgres_url, replicas=["postgresql://me:secret@h/x?oops=secret"])
    assert "secret" not in str(refused.value)


def refuse(url: str, replica: str, code: str) -> None:
    """Assert that a hub refuses to start with a replica."""
    with closing(open_store(url, replicas=[replica])) as store:
        store.migrate()
        with pytest.raises(DatabaseUnsuitable) as refused:
            Hub(store).start()
        assert refused.value.code == code
        assert "secret" not in refused.value.detail


def test_primary_is_refused_as_a_replica(postgres_url: str) -> None:
    refuse(postgres_url, postgres_url.replace("postgres@", "postgres:secret@"), "replica-is-primary")


def test_hub_starts_while_a_replica_that_has_to_be_a_standby_is_the_primary(postgres_url: str) -> None:
    with hub_on(postgres_url, replicas=[f"{postgres_url}?target_session_attrs=standby"], partitions=1) as hub:
        publish(hub, 0)

        assert numbers(hub) == [0]

        assert not only_replica(hub.store).is_used


def test_another_database_is_refused_as_a_replica(standby: Standby, postgres_url: str) -> None:
    refuse(postgres_url, standby.url().replace("postgres@", "postgres:secret@"), "replica-of-another")


def test_standby_of_another_cluster_is_refused_as_a_replica(standby: Standby) -> None:
    with PostgresCluster() as other:
        url = other.create_database()
        refuse(url, standby.url(), "replica-of-another")


def test_role_that_may_not_read_events_is_refused(
    standby: Standby, postgres_cluster: PostgresCluster, postgres_url: str
) -> None:
    with closing(open_store(postgres_url)) as store:
        store.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    try:
        standby.catch_up()
        refuse(postgres_url, url_on(standby, postgres_url).replace("postgres@", "stranger@"), "replica-denied")
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE stranger")


def test_promoted_replica_is_not_used(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    with Standby(postgres_cluster) as standby, hub_with(postgres_url, standby) as hub:
        publish(hub, 0)
        standby.catch_up()
        assert numbers(hub) == [0]
        standby.promote()
        publish(hub, 1)
        rows_of(  # It goes its own way.
            url_on(standby, postgres_url),
            'INSERT INTO penstock_event (partition_id, "offset", received_at, data) '
            "SELECT partition_id, 1, received_at, '{}' FROM penstock_event WHERE \"offset\" = 0 RETURNING 1",
        )

        assert [numbers(hub) for _ in range(5)] == [[0, 1]] * 5

        until(lambda: not only_replica(hub.store).is_used, "the promotion is noticed")
        assert only_replica(hub.store).reads == 1


def test_replica_that_is_ahead_of_a_promoted_standby_is_not_used() -> None:
    """After a failover that lost commits, another standby may have other events at the same offsets."""
    with PostgresCluster() as primary:
        url = primary.create_database()
        with Standby(primary) as heir, Standby(primary) as ahead:
            with hub_on(url, partitions=1) as hub:
                publish(hub, 0)
                heir.catch_up()
                heir.stop()
                publish(hub, 1)
                ahead.catch_up()
            primary.kill()
            heir.start()
            heir.promote()
            with hub_on(url_on(heir, url), replicas=[url_on(ahead, url)]) as hub:
                publish(hub, 2)

                assert [numbers(hub) for _ in range(5)] == [[0, 2]] * 5

                assert only_replica(hub.store).reads == 0
                assert feed_of(ahead, url) == ['{"n": 0}', '{"n": 1}']


def test_replica_that_follows_a_promoted_standby_is_used(postgres_cluster: PostgresCluster) -> None:
    with PostgresCluster() as primary:
        url = primary.create_database()
        with Standby(primary) as heir:
            with hub_on(url, partitions=1) as hub:
                publish(hub, 0)
                heir.catch_up()
            primary.stop()
            heir.promote()
            with Standby(heir) as follower, hub_on(url_on(heir, url), replicas=[url_on(follower, url)]) as hub:
                publish(hub, 1)
                follower.catch_up()

                assert numbers(hub) == [0, 1]

                assert only_replica(hub.store).reads == 1


def feed_of(cluster: PostgresCluster, url: str) -> list[str]:
    """Return the events that a cluster has."""
    return [data for (data,) in rows_of(url_on(cluster, url), 'SELECT data FROM penstock_event ORDER BY "offset"')]
