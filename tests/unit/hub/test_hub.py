"""A hub: it starts, publishes, drains and stops; and the threads and clocks that it is made of."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.access import UNAUTHENTICATED, Resource
from penstock.core.groups.groups import PositionCommit
from penstock.core.producers import EpochClaim, ProducerStamp
from penstock.errors import (
    Blocked,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    HubUnavailable,
    InvalidEvent,
    MalformedRequest,
)
from penstock.hub.background import Background, system_clock, uptime
from penstock.hub.hub import Hub
from penstock.hub.log.publish import ProducerName
from penstock.schema.validation import Validator
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.feeds import NAME, insert_subscription
from tests.unit.hub.forwarding import ForwardingStore, lose_answer


@pytest.fixture
def hub(forwarding: ForwardingStore, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that was not started: nothing happens in it by itself."""
    hub = Hub(forwarding, clock=clock)
    hub.registry.create(an_event_type(NAME))
    yield hub
    hub.stop()


def test_hub_publishes_before_and_after_it_is_started(hub: Hub, clock: VirtualClock) -> None:
    first = clock()
    hub.log.publish(NAME, [a_new_event()])
    [head] = hub.log.find_heads(NAME)[1].values()
    assert (head.next_offset, head.received_at) == (1, first)

    for _ in range(2):
        hub.start()
    clock.advance(seconds=60)
    hub.log.publish(NAME, [a_new_event()])

    [head] = hub.log.find_heads(NAME)[1].values()
    assert (head.next_offset, head.received_at) == (2, first + 60_000_000)


def test_hub_without_tables_does_not_start(tmp_path: Path) -> None:
    hub = Hub(open_store(f"sqlite:///{tmp_path}/empty.db"))

    with pytest.raises(DatabaseUnsuitable, check=has_code("schema-missing")):
        hub.start()
    hub.stop()


def test_stopped_hub_has_stored_its_queue_and_takes_no_more(hub: Hub) -> None:
    answers = [hub.log.submit(NAME, [a_new_event()]) for _ in range(5)]

    hub.stop()

    assert all(each.done() and each.result() for each in answers)
    with pytest.raises(HubUnavailable, check=has_code("hub-stopped")):
        hub.log.submit(NAME, [a_new_event()])


def test_drained_hub_ends_waits_and_goes_on_publishing(hub: Hub) -> None:
    woken: list[str] = []
    hub.log.watch.wait({1: 0}, lambda: woken.append("waiting"))

    hub.drain()
    hub.log.watch.wait({1: 0}, lambda: woken.append("late"))

    assert woken == ["waiting", "late"]
    hub.log.publish(NAME, [a_new_event()])


def test_block_wakes_readers_which_are_refused_then(hub: Hub) -> None:
    hub.admin.permissions.check(UNAUTHENTICATED, "read", Resource("event_type", NAME))
    woken = threading.Event()
    hub.log.watch.wait({7: 5}, woken.set)

    hub.admin.settings.block("CONSUMER_ET", NAME)

    assert woken.is_set()
    hub.admin.permissions.check(UNAUTHENTICATED, "write", Resource("event_type", NAME))
    with pytest.raises(Blocked):
        hub.admin.permissions.check(UNAUTHENTICATED, "read", Resource("event_type", NAME))


def test_invalid_event_is_refused_before_it_is_queued(hub: Hub, forwarding: ForwardingStore) -> None:
    writes = forwarding.writes

    with pytest.raises(InvalidEvent) as refused:
        hub.log.submit(NAME, [a_new_event(b"[]")], lines=[12])

    assert refused.value.line == 12
    assert forwarding.writes == writes


REPEATABLE: dict[str, Callable[[Hub], object]] = {
    "claim of a producer": lambda hub: hub.producers.claim(ProducerName(NAME, 0, "g"), EpochClaim()),
    "setting": lambda hub: hub.admin.settings.block("CONSUMER_ET", "a"),
    "commit of a group": lambda hub: hub.groups.commit("g", "spark", [PositionCommit(NAME, 0, 0)]),
    "locked snapshot of a subscription": lambda hub: hub.subscriptions.sessions.snapshot("s", is_locked=True),
}


@pytest.mark.parametrize("write", REPEATABLE.values(), ids=REPEATABLE)
def test_repeatable_write_with_an_unknown_outcome_is_unavailable(
    hub: Hub, forwarding: ForwardingStore, write: Callable[[Hub], object]
) -> None:
    insert_subscription(hub.store, "s", hub.registry.load(NAME).id)
    forwarding.after_commit = lose_answer

    with pytest.raises(DatabaseUnavailable) as raised:
        write(hub)

    assert raised.value.fields == {"reason": "the connection broke", "retry_after": 1}


def test_batch_of_a_producer_without_events_is_refused(hub: Hub) -> None:
    with pytest.raises(MalformedRequest, check=has_code("malformed-batch")) as refused:
        hub.producers.submit(ProducerName(NAME, 0, "g"), ProducerStamp(0, 0), [])

    assert refused.value.fields == {"reason": "it has no events"}


def test_quick_refusal_does_not_search_the_reason(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "json_schema", "schema": '{"required": ["order_id"]}'}
    hub.registry.create(an_event_type("order.strict", schema=schema))
    wrong = [a_new_event({"n": 1})]
    with pytest.raises(InvalidEvent, match="required key"):
        hub.log.submit("order.strict", wrong)

    monkeypatch.setattr(Validator, "explain", None)

    with pytest.raises(InvalidEvent, match="is not what the schema allows"):
        hub.log.submit("order.strict", wrong, rechecks=False)


# Background threads


def test_background_thread_is_started_once_however_many_start_it() -> None:
    ran: list[threading.Thread] = []
    background = Background("penstock-test", lambda: ran.append(threading.current_thread()))
    assert not background.started
    assert background.wait_for_end(), "it was never started"

    together(*[background.start] * 8)
    background.start()

    assert background.wait_for_end()
    assert [(thread.name, thread.daemon) for thread in ran] == [("penstock-test", True)]
    assert background.started


def test_end_of_a_background_thread_is_awaited_for_a_limited_time() -> None:
    over = threading.Event()
    background = Background("penstock-test", over.wait)
    background.start()

    assert not background.wait_for_end(0)
    assert not background.wait_for_end(0.01)
    over.set()
    assert background.wait_for_end(300)
    assert background.wait_for_end()


# Clocks


def test_system_clock_gives_microseconds_of_utc() -> None:
    before = time.time()
    now = system_clock()

    assert before - 0.001 <= now / 1_000_000 <= time.time() + 0.001


def test_uptime_counts_the_time_in_which_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uptime()
    assert uptime() >= before

    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_MONOTONIC: 5.0, time.CLOCK_BOOTTIME: 65.0}.__getitem__)
    assert uptime() == 65.0
