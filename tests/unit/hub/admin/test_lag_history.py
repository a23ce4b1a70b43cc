"""The hub keeps the gap and lag of consumer groups over the last hours, and measures no more than it needs for that."""

from threading import Event

import pytest
import structlog

from penstock.core.groups.groups import PositionCommit
from penstock.hub.admin.lag_history import GROUPS_MAX, KEPT_SECONDS, SAMPLES_MAX, LagHistory, LagRecorder, LagSample
from penstock.hub.admin.measuring import DatabaseMonitor
from penstock.hub.hub import Hub
from penstock.storage import Store
from penstock.storage.groups import GroupMeasurement
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.unit.hub.forwarding import ForwardingStore, fail

SECOND = 1_000_000
MINUTE = 60 * SECOND
NAME = "order.placed"


class Scene:
    """A history whose clocks move together."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND
        self.history = LagHistory(self.now, 60.0, lambda: self.now / SECOND)

    def pass_and_add(self, seconds: float, *groups: GroupMeasurement) -> int:
        self.now += int(seconds * SECOND)
        self.history.add(self.now, groups)
        return self.now


@pytest.fixture
def scene() -> Scene:
    return Scene()


def behind(name: str, gap: int, received_at: int | None = None) -> GroupMeasurement:
    return GroupMeasurement(name, "processor", "", gap, received_at, 0, 0, None)


def test_history_has_the_gap_and_lag_of_each_minute(scene: Scene) -> None:
    first = scene.pass_and_add(1, behind("mailer", 0), behind("invoices", 9, scene.now))
    second = scene.pass_and_add(60, behind("mailer", 7, scene.now + 45 * SECOND))

    assert scene.history.list("mailer") == [LagSample(first, 0, 0), LagSample(second, 7, 15 * SECOND)]
    assert scene.history.list("nobody") == []


def test_measurements_within_a_minute_are_not_kept_but_put_off_the_next_one(scene: Scene) -> None:
    history = scene.history
    assert history.compute_wait() == 60
    for gap in range(25):
        scene.pass_and_add(5, behind("mailer", gap))
        assert history.compute_wait() == 60

    assert [each.gap for each in history.list("mailer")] == [0, 11, 22]
    scene.now += 61 * SECOND
    assert history.compute_wait() == 0


def test_group_that_is_missing_in_a_measurement_keeps_its_samples_until_they_are_old(scene: Scene) -> None:
    scene.pass_and_add(60, behind("mailer", 1), behind("invoices", 2))
    scene.pass_and_add(60, behind("mailer", 3))
    scene.pass_and_add(60, behind("mailer", 4), behind("invoices", 5))

    assert [each.gap for each in scene.history.list("mailer")] == [1, 3, 4]
    assert [each.gap for each in scene.history.list("invoices")] == [2, 5]
    scene.pass_and_add(KEPT_SECONDS + 60, behind("mailer", 6))
    assert (len(scene.history.list("mailer")), scene.history.list("invoices")) == (1, [])


def test_groups_that_are_missing_for_longest_are_forgotten_first(scene: Scene) -> None:
    names = [f"group {number}" for number in range(GROUPS_MAX + 20)]
    for start in range(0, len(names), 20):
        scene.pass_and_add(60, *(behind(name, 1) for name in names[start : start + 20]))

    assert [name for name in names if not scene.history.list(name)] == names[:20]


def test_samples_are_kept_for_hours_and_bounded_in_number(scene: Scene) -> None:
    for gap in range(SAMPLES_MAX + 10):
        last = scene.pass_and_add(54, behind("mailer", gap))
    found = scene.history.list("mailer")
    assert len(found) == SAMPLES_MAX
    assert (found[0].gap, found[-1]) == (10, LagSample(last, SAMPLES_MAX + 9, 0))

    kept = scene.pass_and_add(KEPT_SECONDS - 60, behind("mailer", 1))
    assert [each.at for each in scene.history.list("mailer")] == [last - 54 * SECOND, last, kept]


def test_clock_that_is_set_back_replaces_samples_of_the_time_that_comes_again(scene: Scene) -> None:
    history, start = scene.history, scene.now
    for minute in (1, 2, 3):
        scene.pass_and_add(60, behind("mailer", minute))
    scene.now += MINUTE
    history.add(start + 2 * MINUTE, [behind("mailer", 9, start + 3 * MINUTE)])

    assert history.list("mailer") == [LagSample(start + MINUTE, 1, 0), LagSample(start + 2 * MINUTE, 9, 0)]


def test_measurement_of_the_database_is_in_the_history(hub: Hub, clock: VirtualClock) -> None:
    monitor = hub.admin.database
    hub.registry.create(an_event_type(NAME, partition_count=1))
    hub.log.publish(NAME, [a_new_event()] * 3)
    hub.groups.commit("mailer", "processor", [PositionCommit(NAME, 0, 1)])
    clock.advance(seconds=5)

    monitor.record_lag()

    assert monitor.lag_history.list("mailer") == [LagSample(clock(), 2, 5 * SECOND)]


def test_hub_without_groups_only_looks_for_one(store: Store, clock: VirtualClock) -> None:
    counting = ForwardingStore(store)

    DatabaseMonitor(counting, clock).record_lag()

    assert counting.reads == 1


def test_failed_measurements_are_tried_again_and_the_first_of_several_is_logged() -> None:
    is_away, ended = iter([True, True, False, True, True, False]), Event()

    def record() -> None:
        if (away := next(is_away, None)) is None:
            ended.set()
        elif away:
            fail()

    recorder = LagRecorder(LagHistory(0, 0.001), record)
    with structlog.testing.capture_logs() as logs:
        recorder.start()
        assert ended.wait(300)
        assert recorder.stop(300)

    assert [each["log_level"] for each in logs] == ["warning", "warning"]
