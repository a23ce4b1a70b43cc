"""What callers do is recorded as events of the hub's own event types, in the background and within bounds."""

import json
from contextlib import closing
from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.core.groups.groups import PositionCommit
from penstock.core.subscriptions.definition import complete_subscription
from penstock.core.subscriptions.delivery import JoinedEvents
from penstock.errors import DatabaseUnavailable, OutcomeUnknown
from penstock.hub import activity as recording
from penstock.hub.activity import Activity, ConsumerName, RequestEntry, SentEvents, hide_secrets
from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import an_event_type
from tests.unit.hub.feeds import find_feed, read_data
from tests.unit.hub.forwarding import ForwardingStore

NAME = "order.placed"
ACCESS, PUBLISHED, STREAMED = "nakadi.access.log", "nakadi.batch.published", "nakadi.data.streamed"
SHOP, JANE = Caller("service", "shop"), Caller("user", "jane")
BOTH = ["access_log_enabled", "kpi_collection"]
REQUEST = RequestEntry(
    ended_at=1_700_000_000_000_000,
    method="GET",
    path="/event-types",
    query="",
    user_agent="curl",
    app="shop",
    status=200,
    response_ms=3,
    accept_encoding="-",
    content_encoding="-",
    request_bytes=0,
    response_bytes=2,
    flow_id="f1",
    event_type="-",
    consumer=None,
)


class Seconds:
    """Seconds of a monotonic clock that tests move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def switched(hub: Hub) -> Hub:
    """A hub whose operators have switched everything on."""
    for feature in BOTH:
        hub.admin.settings.switch(feature, on=True)
    return hub


@pytest.fixture
def activity(switched: Hub, clock: VirtualClock, seconds: Seconds) -> Activity:
    found = Activity(switched.store, clock, monotonic=seconds)
    found.apply_features(BOTH)
    return found


def read_log(store: Store, name: str) -> list[dict[str, Any]]:
    feed = find_feed(store, name)
    return [json.loads(line) for each in feed.partition_ids for line in read_data(store, each)]


def without_metadata(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if key not in ("metadata", "app_hashed")} for each in events]


def test_activity_is_off_until_a_feature_says_so(hub: Hub) -> None:
    hub.admin.settings.current()
    assert not hub.activity.is_on
    for feature in BOTH:
        hub.admin.settings.switch(feature, on=True)
        assert hub.activity.is_on
    for feature in BOTH:
        hub.admin.settings.switch(feature, on=False)
    assert not hub.activity.is_on
    hub.activity.add_publish(NAME, SHOP, events=1, size=1, ms=1)
    hub.activity.add_streamed("lola", NAME, SHOP, events=1, size=1, batches=1)
    hub.activity.add_request(REQUEST)
    hub.activity.write()
    assert [read_log(hub.store, name) for name in (ACCESS, PUBLISHED, STREAMED)] == [[], [], []]


def test_publishes_are_added_up_by_event_type_and_caller_over_a_minute(activity: Activity, seconds: Seconds) -> None:
    for size in (10, 20):
        activity.add_publish(NAME, SHOP, events=2, size=size, ms=1.4)
    activity.add_publish(NAME, JANE, events=1, size=5, ms=1)
    activity.add_publish("other", SHOP, events=1, size=7, ms=1)
    seconds.now = 59
    activity.write_due()
    assert read_log(activity._store, PUBLISHED) == []

    seconds.now = 60
    activity.write_due()
    found = without_metadata(read_log(activity._store, PUBLISHED))
    assert found[0] == {
        "event_type": NAME, "app": "shop", "token_realm": "service", "number_of_events": 4, "ms_spent": 3,
        "batch_size": 30, "batches": 2,
    }  # fmt: skip
    assert [(each["event_type"], each["app"], each["token_realm"]) for each in found[1:]] == [
        (NAME, "jane", "user"),
        ("other", "shop", "service"),
    ]

    seconds.now = 180
    activity.write_due()
    assert len(read_log(activity._store, PUBLISHED)) == 3, "a minute without publishes has no events"


def test_streams_are_added_up_by_reader_and_those_of_the_hubs_own_events_are_not(
    activity: Activity, seconds: Seconds
) -> None:
    sent = SentEvents(activity, "hila", SHOP, "s1")
    for batch in ([b"{}", b"{}"], JoinedEvents(b"{}\n{}\n{}", 3), []):
        sent.note(NAME, batch)
    sent.record()
    sent.record()
    activity.add_streamed("lola", NAME, SHOP, events=1, size=9, batches=1)
    for name in (STREAMED, ACCESS, "nakadi.audit.log"):
        activity.add_streamed("lola", name, SHOP, events=1, size=9, batches=1)
    seconds.now = 60
    activity.write_due()

    caller = {"app": "shop", "token_realm": "service", "event_type": NAME}
    assert without_metadata(read_log(activity._store, STREAMED)) == [
        caller | {
            "api": "hila", "subscription": "s1", "number_of_events": 5, "bytes_streamed": 12, "batches_streamed": 2
        },
        caller | {"api": "lola", "number_of_events": 1, "bytes_streamed": 9, "batches_streamed": 1},
    ]  # fmt: skip


def test_requests_are_written_with_their_own_time_and_flow_id(activity: Activity) -> None:
    activity.add_request(REQUEST._replace(query="?n=1", status=404, request_bytes=7))
    activity.write_due()

    [event] = read_log(activity._store, ACCESS)
    assert event["metadata"].items() >= {
        "occurred_at": "2023-11-14T22:13:20.000Z", "flow_id": "f1", "event_type": ACCESS
    }.items()  # fmt: skip
    assert without_metadata([event]) == [
        {
            "method": "GET", "path": "/event-types", "query": "?n=1", "user_agent": "curl", "app": "shop",
            "status_code": 404, "response_time_ms": 3, "accept_encoding": "-", "content_encoding": "-",
            "request_length": 7, "response_length": 2,
        }
    ]  # fmt: skip
    assert len(event["app_hashed"]) == 64


def test_requests_beyond_the_bound_are_dropped_and_counted(activity: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "REQUESTS_MAX", 5)
    monkeypatch.setattr(recording, "APPENDED_MAX", 2)
    for number in range(8):
        activity.add_request(REQUEST._replace(path=f"/{number}"))
    activity.write_due()
    activity.add_request(REQUEST._replace(path="/later"))
    activity.write_due()

    assert [each["path"] for each in read_log(activity._store, ACCESS)] == ["/0", "/1", "/2", "/3", "/4", "/later"]
    assert activity.dropped == {ACCESS: 3, PUBLISHED: 0, STREAMED: 0}


def test_sums_beyond_the_bound_are_dropped_and_counted(activity: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "COUNTS_MAX", 2)
    for number in range(4):
        activity.add_publish(f"t.{number}", SHOP, events=1, size=1, ms=1)
        activity.add_streamed("lola", f"t.{number}", SHOP, events=1, size=1, batches=1)
    activity.add_publish("t.0", SHOP, events=1, size=1, ms=1)
    activity.write()

    assert [each["number_of_events"] for each in read_log(activity._store, PUBLISHED)] == [2, 1]
    assert activity.dropped == {ACCESS: 0, PUBLISHED: 2, STREAMED: 2}


def test_requests_about_the_hubs_own_event_types_are_not_recorded_unless_refused(
    switched: Hub, activity: Activity
) -> None:
    given = {"owning_application": "shop", "event_types": [ACCESS], "read_from": "begin"}
    own, _ = switched.subscriptions.create(complete_subscription(given))
    switched.registry.create(an_event_type(NAME))
    other, _ = switched.subscriptions.create(complete_subscription(given | {"event_types": [NAME]}))
    log = switched.registry.load(ACCESS)
    switched.groups.commit("mail", "processor", [PositionCommit(ACCESS, 0, 0, epoch=log.epoch)])
    for status in (200, 403):
        activity.add_request(REQUEST._replace(path="/own", event_type=ACCESS, status=status))
        for path, name in (("/own/s", own.id), ("/other", other.id), ("/none", "x")):
            activity.add_request(REQUEST._replace(path=path, consumer=ConsumerName(True, name), status=status))
        for path, name in (("/own/g", "mail"), ("/group", "x")):
            activity.add_request(REQUEST._replace(path=path, consumer=ConsumerName(False, name), status=status))
    activity.write()

    found = [(each["path"], each["status_code"]) for each in read_log(switched.store, ACCESS)]
    accepted, refused = ([path for path, of in found if of == status] for status in (200, 403))
    assert accepted == ["/other", "/none", "/group"]
    assert refused == ["/own", "/own/s", "/other", "/none", "/own/g", "/group"]


def record_some(activity: Activity) -> None:
    activity.add_request(REQUEST)
    activity.add_publish(NAME, SHOP, events=1, size=1, ms=1)
    activity.add_streamed("lola", NAME, SHOP, events=1, size=1, batches=1)


def record_while_failing(store: Store, clock: VirtualClock, error: Exception) -> Activity:
    """Record twice while each write fails with *error*, and then write without it."""

    def fail(_: int) -> None:
        raise error

    failing = ForwardingStore(store)
    activity = Activity(failing, clock)  # type: ignore[arg-type]
    activity.apply_features(BOTH)
    failing.at_write = fail
    for _ in range(2):
        record_some(activity)
        activity.write()
    failing.at_write = lambda _: None
    activity.write()
    return activity


def test_records_wait_while_the_database_is_away(switched: Hub, clock: VirtualClock) -> None:
    activity = record_while_failing(switched.store, clock, DatabaseUnavailable(reason="away", retry_after=1))

    assert len(read_log(switched.store, ACCESS)) == 2
    assert [each["batches"] for each in read_log(switched.store, PUBLISHED)] == [2]
    assert [each["batches_streamed"] for each in read_log(switched.store, STREAMED)] == [2]
    assert set(activity.dropped.values()) == {0}


def test_records_are_not_written_again_if_a_commit_may_have_succeeded(switched: Hub, clock: VirtualClock) -> None:
    activity = record_while_failing(switched.store, clock, OutcomeUnknown(reason="broke off"))

    assert [read_log(switched.store, name) for name in (ACCESS, PUBLISHED, STREAMED)] == [[], [], []]
    assert set(activity.dropped.values()) == {2}


def test_each_hub_writes_what_it_has_recorded_when_it_stops(migrated_url: str) -> None:
    with closing(open_store(migrated_url)) as store:
        store.migrate()
        hubs = [Hub(open_store(migrated_url)) for _ in range(2)]
        for feature in BOTH:
            hubs[0].admin.settings.switch(feature, on=True)
        for hub in hubs:
            hub.start()
            record_some(hub.activity)
        for hub in hubs:
            hub.stop()
            record_some(hub.activity)

        assert [len(read_log(store, name)) for name in (ACCESS, PUBLISHED, STREAMED)] == [2, 2, 2]


def test_what_waits_is_discarded_once_an_operator_has_switched_it_off(switched: Hub, activity: Activity) -> None:
    record_some(activity)
    for feature in BOTH:
        switched.admin.settings.switch(feature, on=False)
    for name in (ACCESS, PUBLISHED, STREAMED):
        switched.registry.delete(name)
    activity.write()

    assert [feed.name for feed in switched.registry.list() if feed.name in (ACCESS, PUBLISHED, STREAMED)] == []


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ""),
        ("?", "?"),
        ("?n=2&cursor0=_first&from", "?n=2&cursor0=_first&from"),
        ("?access_token=abc&n=1", "?access_token=***&n=1"),
        ("?acc%65ss_Token=a=b", "?acc%65ss_Token=***"),
        ("?x=pst_" + "a" * 43, "?x=***"),
        ("?x=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "?x=***"),
        ("?x=pst_abcdefghi", "?x=***"),
    ],
)
def test_secrets_of_a_query_are_hidden(query: str, shown: str) -> None:
    assert hide_secrets(query) == shown


def test_secrets_of_a_path_and_of_a_user_agent_are_hidden(activity: Activity) -> None:
    secret = "pst_" + "a" * 43
    activity.add_request(REQUEST._replace(path=f"/x/{secret}", user_agent=f"x {secret}", query=f"?q={secret}"))
    activity.write()

    assert secret not in json.dumps(read_log(activity._store, ACCESS))
