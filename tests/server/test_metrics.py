"""Metrics of the hub: what piles up in the database, and what its requests take."""

import re
import threading
import uuid
from collections.abc import Iterator, Mapping

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.core.access import Caller
from penstock.hub.admin.measuring import MEASURED_MAX
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.hub import Hub
from penstock.server import state
from penstock.server.metrics import ROWS_COUNTED_MAX, DatabaseFigures, Metrics
from penstock.storage import open_store
from penstock.storage.groups import Position
from tests.served import Served, client_of, create, live_hub, until
from tests.server.outbox_rows import insert
from tests.server.test_groups import at, commit, show

OUTBOX = ("penstock_outbox_rows", "penstock_rejected_rows", "penstock_outbox_oldest_seconds")


class Scraped:
    """The samples of one scrape."""

    def __init__(self, http: httpx2.Client) -> None:
        answer = http.get("/metrics")
        assert answer.status_code == 200
        self.samples: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                self.samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value

    def get(self, name: str, **labels: str) -> float | None:
        """Return the one sample with these labels among its own; None if there is none."""
        found = [value for own, value in self.samples.get(name, {}).items() if labels.items() <= dict(own).items()]
        assert len(found) < 2, found
        return found[0] if found else None


def scrape_until(http: httpx2.Client, name: str, wanted: float, **labels: str) -> Scraped:
    """Scrape until a sample has the value: what the database is asked for is some seconds old."""
    found = [Scraped(http)]
    until(lambda: found[-1].get(name, **labels) == wanted or found.append(Scraped(http)))
    return found[-1]


@pytest.fixture
def own(sqlite_url: str) -> Iterator[httpx2.Client]:
    """A client of a hub that nobody else uses."""
    with live_hub(sqlite_url) as hub, client_of(hub) as http:
        yield http


def test_group_has_the_gap_and_the_lag_that_the_hub_shows_for_it(either_http: httpx2.Client) -> None:
    feed, group = create(either_http, 2), f"mailer-{uuid.uuid4().hex}"
    for partition in range(2):
        feed.publish_ids(range(5), partition=partition)
    assert commit(either_http, group, at(feed, 0, 2), at(feed, 1, 5)).status_code == 200

    found = scrape_until(either_http, "penstock_group_gap_events", 3, group=group)
    shown = show(either_http, group)

    assert shown["gap"] == 3
    assert 0 < found.get("penstock_group_lag_seconds", group=group, kind="processor") <= shown["lag_seconds"] + 0.001
    assert 0 < found.get("penstock_group_commit_age_seconds", group=group) <= shown["lag_seconds"] + 0.001
    assert found.get("penstock_group_stuck_partitions", group=group) == 0
    assert found.get("penstock_event_type_events", event_type=feed.name) == 10
    assert found.get("penstock_event_type_bytes", event_type=feed.name) == 10 * len('{"id": 0}')
    assert found.get("penstock_database_bytes") > 0


def test_group_with_positions_of_before_a_restore_is_stuck(own: httpx2.Client, sqlite_url: str) -> None:
    feed = create(own, 2)
    feed.publish_ids(range(3), partition=0)
    assert commit(own, "mailer", at(feed, 0, 3), at(feed, 1, 0)).status_code == 200
    store = open_store(sqlite_url)
    with store.write() as tx:
        tx.registry.raise_epochs()
    store.close()

    found = Scraped(own)

    assert found.get("penstock_group_stuck_partitions", group="mailer") == 2
    assert found.get("penstock_group_gap_events", group="mailer") == 3


def test_number_of_groups_is_limited_to_those_furthest_behind(own: httpx2.Client, sqlite_url: str) -> None:
    feed = create(own)
    feed.publish_ids(range(3))
    store = open_store(sqlite_url)
    for n in range(MEASURED_MAX + 7):
        with store.write() as tx:
            tx.groups.lock(f"group-{n}", kind="processor", at=1)
            tx.groups.put(f"group-{n}", [Position(feed.name, "", 0, 1, 3 if n < 50 else n % 3)], 1)
    store.close()

    found = scrape_until(own, "penstock_groups", MEASURED_MAX + 7)

    gaps = found.samples["penstock_group_gap_events"]
    assert len(gaps) == MEASURED_MAX
    assert sum(gap > 0 for gap in gaps.values()) == MEASURED_MAX + 7 - 50
    assert found.get("penstock_groups_left_out") == 7


def test_published_and_served_events_are_counted_by_event_type(feed: Served) -> None:
    feed.publish_ids(range(7))
    feed.read(pagesizehint=5)
    found = Scraped(feed.http)
    assert found.get("penstock_events_published_total", event_type=feed.name) == 7
    assert found.get("penstock_feed_events_served_total", event_type=feed.name) == 5
    assert found.get("penstock_waiters") == 0
    assert not [name for name in found.samples if name.endswith("_created")]


def test_rows_of_the_outbox_and_rejected_rows_are_counted_up_to_a_limit(own: httpx2.Client, sqlite_url: str) -> None:
    feed = create(own)
    empty = Scraped(own)
    assert [empty.get(name) for name in OUTBOX] == [0, 0, 0]
    insert(sqlite_url, [feed.name, "no.such.type", "no.such.type"])
    scrape_until(own, "penstock_rejected_rows", 2)
    scrape_until(own, "penstock_outbox_rows", 0)
    assert feed.read().ids == [0]

    insert(sqlite_url, ["no.such.type"] * (ROWS_COUNTED_MAX + 2))
    scrape_until(own, "penstock_rejected_rows", ROWS_COUNTED_MAX + 1)


def test_events_are_counted_with_their_bytes_on_request_and_from_the_outbox(
    own: httpx2.Client, sqlite_url: str
) -> None:
    feed = create(own)
    feed.publish({"text": "ü"})
    insert(sqlite_url, [feed.name] * 3)

    found = scrape_until(own, "penstock_events_appended_total", 4, event_type=feed.name)

    written = len('{"text":"\\u00fc"}') + 3 * len('{"id":0}')
    assert found.get("penstock_events_appended_bytes_total", event_type=feed.name) == pytest.approx(written, abs=6)
    assert found.get("penstock_events_published_total", event_type=feed.name) == 1


def test_requests_are_counted_by_route_and_status(own: httpx2.Client) -> None:
    feed = create(own)
    for n in range(3):
        feed.publish_ids([n])
    feed.read()
    own.get("/feeds/no.such.type?n=1&cursor0=_first")
    own.get("/nowhere")

    found = Scraped(own)

    path = "/feeds/{event_type}"
    assert found.get("penstock_requests_total", method="POST", route=path, status="200") == 3
    assert found.get("penstock_requests_total", method="GET", route=path, status="200") == 1
    assert found.get("penstock_requests_total", method="GET", route=path, status="404") == 1
    assert found.get("penstock_requests_total", route="-", status="404") == 1
    assert found.get("penstock_request_seconds_count", method="POST", route=path) == 3
    assert found.get("penstock_request_seconds_bucket", method="POST", route=path, le="+Inf") == 3
    assert found.get("penstock_request_seconds_sum", method="POST", route=path) > 0


def test_waiting_for_events_does_not_count_to_the_duration_of_a_read(own: httpx2.Client) -> None:
    feed = create(own)
    end = feed.read().cursors
    feed.read(cursors=end, wait=1)
    found = Scraped(own)

    assert found.get("penstock_request_seconds_count", method="GET", route="/feeds/{event_type}") == 2
    assert found.get("penstock_request_seconds_sum", method="GET", route="/feeds/{event_type}") < 1


def test_caller_has_the_time_until_its_last_token_expires(sqlite_url: str) -> None:
    store = open_store(sqlite_url)
    store.migrate()
    hub = Hub(store)
    tokens = hub.admin.tokens
    rotated = tokens.create(Caller("service", "mailer"), expires_in_seconds=1_000).token
    tokens.rotate(rotated.id, overlap_seconds=60)
    tokens.create(Caller("user", "jane"), expires_in_seconds=0.001)
    tokens.create(Caller("service", "lasting"))
    tokens.create(Caller("service", "lasting"), expires_in_seconds=60)
    hub.admin.permissions.enforce(AccessPolicy())
    families = list(Metrics(lambda: hub).collect_all(DatabaseFigures()))
    hub.stop()

    values = {each.name: {sample.labels.get("name", ""): sample.value for sample in each.samples} for each in families}
    left = values["penstock_token_expires_seconds"]
    assert values["penstock_token_lifetime_seconds"] == {"service:mailer": 1_000, "user:jane": 0.001}
    assert left.keys() == {"service:mailer", "user:jane"}
    assert 60 < left["service:mailer"] <= 1_000
    assert left["user:jane"] < 1


def test_streams_of_subscriptions_are_counted_while_they_last(own: httpx2.Client) -> None:
    feed = create(own)
    made = own.post("/subscriptions", json={"owning_application": "shop", "event_types": [feed.name]}).json()
    with own.stream("GET", f"/subscriptions/{made['id']}/events") as answer:
        assert answer.status_code == 200
        found = Scraped(own)
        assert (found.get("penstock_streams"), found.get("penstock_sessions")) == (1, 1)
        assert found.get("penstock_request_seconds_count", route="/subscriptions/{subscription}/events") is None
    until(lambda: Scraped(own).get("penstock_streams") == 0)
    route = "/subscriptions/{subscription}/events"
    found = scrape_until(own, "penstock_request_seconds_count", 1, method="GET", route=route)
    assert found.get("penstock_group_gap_events", group=made["id"], application="shop") == 0


def test_any_name_of_a_group_is_a_label(either_http: httpx2.Client) -> None:
    feed, group = create(either_http), f'"{{a="b\\n"}}, \\ {uuid.uuid4().hex}'
    feed.publish_ids(range(3))
    feed.read(cursorset=group)
    scrape_until(either_http, "penstock_group_gap_events", 3, group=group)


def test_pool_of_connections_is_told(either_http: httpx2.Client) -> None:
    found = Scraped(either_http)
    assert found.get("penstock_database_connections", state="idle") >= 0
    assert found.get("penstock_database_connections", state="used") >= 0
    assert found.get("penstock_database_connections_wanted") == 0
    assert found.get("penstock_database_connections_max") in (None, 10)


def test_scrapes_at_once_are_all_answered(feed: Served) -> None:
    feed.publish_ids(range(3))
    found: list[Mapping[str, object]] = []
    threads = [threading.Thread(target=lambda: found.append(Scraped(feed.http).samples)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all("penstock_groups" in each and "penstock_outbox_rows" in each for each in found)
    assert len(found) == 8


def test_metrics_of_the_database_are_asked_for_at_most_every_five_seconds() -> None:
    assert state.MEASURE_INTERVAL == 5


def test_every_sample_belongs_to_a_family_with_help(either_http: httpx2.Client) -> None:
    text = either_http.get("/metrics").text
    helped = {*re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE)}
    names = {re.sub(r"_(bucket|count|sum)$", "", each) for each in re.findall(r"^(\w+)[{ ]", text, re.MULTILINE)}
    assert names <= helped
