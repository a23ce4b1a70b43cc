import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.cursor import FIRST, LAST
from penstock.core.limits import NAKADI, PENSTOCK
from penstock.core.producer import Stamp
from penstock.core.validation import Validator
from penstock.errors import (
    Blocked,
    ChangesSwitchedOff,
    DatabaseUnavailable,
    EventTypeInUse,
    EventTypeNotFound,
    HubStopped,
    InvalidEvent,
    MalformedBatch,
    NotOffered,
    OutboxBacklog,
    OutcomeUnknown,
    PublishingRestricted,
    SchemaMissing,
)
from penstock.hub.hub import Hub, not_settled
from penstock.hub.permissions import UNAUTHENTICATED
from penstock.hub.read import Wanted
from penstock.hub.stamped import Who
from penstock.storage import Store, open_store
from penstock.storage.groups import Listed, Which
from penstock.storage.store import Position
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.unit.hub.feeds import NAME, into_outbox, subscribed
from tests.unit.hub.forwarding import ForwardingStore

FROM_THE_BEGINNING = [Wanted("cursor0", 0, FIRST)]


@pytest.fixture
def hub(forwarding: ForwardingStore, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that was not started: nothing happens in it but what the test asks for."""
    hub = Hub(forwarding, clock=clock)
    hub.create_event_type(an_event_type(NAME))
    yield hub
    hub.stop()


def ends(hub: Hub) -> list[int]:
    feed, heads = hub.heads(NAME)
    return [heads[partition_id].next_offset for partition_id in feed.partition_ids]


def test_an_event_type_that_takes_each_event_once_takes_no_plain_publish(hub: Hub) -> None:
    hub.create_event_type(an_event_type("once", options={"publishing": "exactly-once"}))

    with pytest.raises(PublishingRestricted):
        hub.publish("once", [a_new_event()])
    with pytest.raises(PublishingRestricted):
        hub.submit("once", [a_new_event()])

    into_outbox(hub.store, [("once", "{}")])
    assert hub.settle("once")


def test_a_publish_that_was_prepared_before_is_refused_by_an_event_type_that_takes_each_event_once(
    hub: Hub, forwarding: ForwardingStore
) -> None:
    hub.publish(NAME, [a_new_event()])
    with forwarding.write() as tx:  # As another process does it.
        tx.feeds.delete(NAME)
    Hub(forwarding).create_event_type(an_event_type(NAME, options={"publishing": "exactly-once"}))

    with pytest.raises(PublishingRestricted):
        hub.publish(NAME, [a_new_event()])

    assert ends(hub) == [0]


def test_what_another_hub_moves_while_a_page_is_opened_is_in_the_page(hub: Hub, forwarding: ForwardingStore) -> None:
    other = Hub(open_store(forwarding.url))
    into_outbox(hub.store, [(NAME, "{}")])
    before = forwarding.reads

    def move(number: int) -> None:
        if number > before + 1:
            other.settle(NAME)

    forwarding.at_read = move
    reading = hub.open(NAME, None, FROM_THE_BEGINNING, 10)

    assert [list(track.quotas.values()) for track in reading.tracks] == [[1]]
    other.stop()


def test_two_slices_of_one_partition_wait_for_what_the_one_behind_wants(hub: Hub) -> None:
    hub.publish(NAME, [a_new_event({"n": n}) for n in range(5)])
    reading = hub.look(NAME, 2, [Wanted("cursor0", 0, FIRST), Wanted("cursor1", 1, LAST)], 10)

    assert list(reading.waits_at.values()) == [0]
    assert list(hub.look(NAME, 2, [Wanted("cursor0", 0, LAST), Wanted("cursor1", 1, FIRST)], 10).waits_at.values()) == [
        0
    ]


def test_events_are_received_when_the_clock_says(hub: Hub, clock: VirtualClock) -> None:
    hub.publish(NAME, [a_new_event()])
    first = clock()
    clock.advance(seconds=60)
    feed, heads = hub.heads(NAME)
    assert heads[feed.partition_ids[0]].received_at == first

    hub.publish(NAME, [a_new_event()])

    assert hub.heads(NAME)[1][feed.partition_ids[0]].received_at == first + 60_000_000


def test_a_publish_is_light_once_another_one_has_gone_before_it(hub: Hub) -> None:
    name = "order.light"
    hub.create_event_type(an_event_type(name, schema=json_schema({"title": name})))
    assert not hub.is_light(name, 100)
    hub.event_type(name)
    assert not hub.is_light(name, 100), "its schema is yet to be compiled"

    hub.publish(name, [a_new_event()])

    assert hub.is_light(name, 100)
    hub.delete_event_type(name)
    assert not hub.is_light(name, 100)


def test_a_publish_that_can_take_long_is_not_light(hub: Hub) -> None:
    schema = {"additionalProperties": {"items": {"allOf": [{"maximum": limit} for limit in range(1, 9_900)]}}}
    hub.create_event_type(an_event_type("order.heavy", schema=json_schema(schema)))

    hub.publish("order.heavy", [a_new_event()])

    assert hub.is_light("order.heavy", 100)
    assert not hub.is_light("order.heavy", 16_000)


def test_a_refusal_that_may_be_out_of_date_does_not_look_for_what_is_wrong(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create_event_type(an_event_type("order.strict", schema=json_schema({"required": ["order_id"]})))
    wrong = [a_new_event({"n": 1})]
    with pytest.raises(InvalidEvent, match="required key"):
        hub.submit("order.strict", wrong)

    monkeypatch.setattr(Validator, "why", None)

    with pytest.raises(InvalidEvent, match="is not what the schema allows"):
        hub.submit("order.strict", wrong, looks=False)


def json_schema(schema: dict[str, Any]) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps(schema)}


def test_no_events_can_be_given_no_numbers(hub: Hub) -> None:
    with pytest.raises(MalformedBatch) as told:
        hub.produce(Who(NAME, 0, "g"), Stamp(0, 0), [])

    assert told.value.fields == {"reason": "it has no events"}


def test_a_submit_that_cannot_be_right_is_refused_before_it_is_queued(hub: Hub, forwarding: ForwardingStore) -> None:
    writes = forwarding.writes

    with pytest.raises(InvalidEvent) as told:
        hub.submit(NAME, [a_new_event(b"[]")], lines=[12])

    assert told.value.fields["line"] == 12
    assert forwarding.writes == writes


class TestOutbox:
    def test_it_is_told_whether_anything_waits(self, hub: Hub) -> None:
        assert (hub.waits_in_outbox(NAME), hub.settle(NAME)) == (False, False)

        into_outbox(hub.store, [(NAME, "{}")])

        assert (hub.waits_in_outbox(NAME), hub.settle(NAME), hub.waits_in_outbox(NAME)) == (True, True, False)

    def test_nothing_is_written_for_an_empty_one(self, hub: Hub, forwarding: ForwardingStore) -> None:
        writes = forwarding.writes

        hub.open(NAME, None, FROM_THE_BEGINNING, 10)
        hub.heads(NAME)

        assert forwarding.writes == writes

    def test_only_a_page_that_comes_to_the_head_moves_it(self, hub: Hub) -> None:
        hub.publish(NAME, [a_new_event() for _ in range(10)])
        into_outbox(hub.store, [(NAME, "{}")])

        before = hub.open(NAME, None, FROM_THE_BEGINNING, 9)
        assert hub.waits_in_outbox(NAME)
        after = hub.open(NAME, None, FROM_THE_BEGINNING, 10)

        assert not hub.waits_in_outbox(NAME)
        assert (before.tracks[0].stops, after.tracks[0].stops) == ({0: 10}, {0: 11})

    def test_a_look_leaves_it_alone(self, hub: Hub) -> None:
        into_outbox(hub.store, [(NAME, "{}")])

        assert hub.look(NAME, None, FROM_THE_BEGINNING, 10).reaches_head
        assert hub.waits_in_outbox(NAME)

    def test_heads_include_what_waited_in_it(self, hub: Hub) -> None:
        into_outbox(hub.store, [(NAME, "{}")] * 3)

        assert ends(hub) == [3]

    def test_a_read_for_which_it_could_not_be_moved_can_be_repeated(self) -> None:
        """To read again is always safe, whatever became of the move."""
        late = not_settled(NAME, TimeoutError())
        unknown = not_settled(NAME, OutcomeUnknown(reason="the line was cut"))

        assert isinstance(late, OutboxBacklog) and late.fields["event_type"] == NAME
        assert isinstance(unknown, DatabaseUnavailable) and unknown.fields["reason"] == "the line was cut"
        assert late.retryable and unknown.retryable


class TestLife:
    def test_it_starts_by_itself_and_more_than_once(self, hub: Hub) -> None:
        hub.publish(NAME, [a_new_event()])
        hub.start()
        hub.start()
        hub.publish(NAME, [a_new_event()])

        assert ends(hub) == [2]

    def test_a_database_without_tables_is_told_at_the_start(self, tmp_path: Path) -> None:
        hub = Hub(open_store(f"sqlite:///{tmp_path}/empty.db"))

        with pytest.raises(SchemaMissing):
            hub.start()
        hub.stop()

    def test_what_is_queued_when_it_stops_is_stored_and_nothing_after_that(self, hub: Hub) -> None:
        told = [hub.submit(NAME, [a_new_event()]) for _ in range(5)]

        hub.stop()

        assert all(each.done() and each.result() for each in told)
        with pytest.raises(HubStopped):
            hub.submit(NAME, [a_new_event()])

    def test_a_drain_ends_waits_and_goes_on_serving(self, hub: Hub) -> None:
        woken: list[str] = []
        hub.watch().wait({1: 0}, lambda: woken.append("waiting"))

        hub.drain()
        hub.watch().wait({1: 0}, lambda: woken.append("late"))

        assert woken == ["waiting", "late"]
        hub.publish(NAME, [a_new_event()])


def test_who_is_blocked_may_not_and_who_waits_is_woken_to_ask_again(hub: Hub) -> None:
    hub.check(UNAUTHENTICATED, "read", NAME)
    woken = threading.Event()
    hub.watch().wait({7: 5}, woken.set)

    hub.settings.block("CONSUMER_ET", NAME)

    assert woken.is_set()
    hub.check(UNAUTHENTICATED, "write", NAME)
    with pytest.raises(Blocked):
        hub.check(UNAUTHENTICATED, "read", NAME)


def test_features_that_rule_out_a_change_rule_it_out_before(hub: Hub) -> None:
    hub.settings.switch("disable_event_type_creation", on=True)

    hub.check_event_type(NAME, an_event_type(NAME))
    with pytest.raises(NotOffered):
        hub.check_event_type("more", an_event_type("more"))
    hub.settings.switch("disable_db_write_operations", on=True)
    with pytest.raises(ChangesSwitchedOff):
        hub.check_event_type(NAME, an_event_type(NAME))


def test_groups_are_those_that_have_kept_cursors(hub: Hub) -> None:
    reading = hub.look(NAME, 1, FROM_THE_BEGINNING, 10)
    hub.groups.store_cursors(reading.feed, "mine", [(track.view, track.offsets) for track in reading.tracks])

    assert hub.groups.list(Which(), 9) == hub.groups.list(Which(NAME), 9) == [Listed("mine", "cursorset", (NAME,))]


def test_an_event_type_that_subscriptions_read_stays(hub: Hub) -> None:
    hub.create_event_type(an_event_type("order.sent"))
    read_by(hub, "subscription", "b", "a")
    read_by(hub, "cursorset", "a cursor set")

    with pytest.raises(EventTypeInUse) as refused:
        hub.delete_event_type(NAME)

    assert refused.value.fields == {"event_type": NAME, "subscriptions": ["a", "b"]}
    assert hub.event_type(NAME).name == NAME
    assert len(hub.groups.list(Which(NAME), 9)) == 3
    hub.delete_event_type("order.sent")


def test_with_a_feature_it_goes_and_what_they_have_read_of_it(hub: Hub) -> None:
    read_by(hub, "subscription", "a")
    hub.settings.switch("delete_event_type_with_subscriptions", on=True)

    hub.delete_event_type(NAME)

    assert not any(each.sources for each in hub.groups.list(Which(), 9))
    with pytest.raises(EventTypeNotFound):
        hub.event_type(NAME)


def test_cursor_sets_keep_no_event_type(hub: Hub) -> None:
    read_by(hub, "cursorset", "mine")

    hub.delete_event_type(NAME)

    assert not any(each.sources for each in hub.groups.list(Which(), 9))


def read_by(hub: Hub, kind: str, *groups: str) -> None:
    """Let consumer groups of that kind have read of the event type."""
    for group in groups:
        if kind == "subscription":
            subscribed(hub.store, group, hub.event_type(NAME).id)
        with hub.store.write() as tx:
            tx.positions.store(group, NAME, "1/0", [Position(0, 1, 0)], kind=kind, at=START_AT)


def test_a_hub_keeps_to_its_limits_unless_told_others(store: Store, hub: Hub) -> None:
    assert hub.limits is PENSTOCK
    assert Hub(store, limits=NAKADI).limits is NAKADI
