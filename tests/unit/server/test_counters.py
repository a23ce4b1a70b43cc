"""Counters of the hub process: requests by route and duration, events by event type, both in bounded memory."""

import pytest

from penstock.core.events.event import NewEvent
from penstock.hub import committer
from penstock.hub.hub import Hub
from penstock.server.metrics import BOUNDS, OTHERS, VOLUMES_MAX, EventCounter, RequestTimes
from penstock.server.telemetry import NO_ROUTE, AccessLine
from penstock.storage import open_store
from penstock.testing.factories import an_event_type


class Line(AccessLine):
    """The line of a request that took so many seconds."""

    seconds = 0.0

    def __init__(self, route: str, status: int, seconds: float = 0.0) -> None:
        super().__init__({"type": "http", "method": "GET", "path": "/"}, send, "flow")
        self.route, self.status, self.seconds = route, status, seconds

    @property
    def seconds_to_answer(self) -> float:
        return self.seconds


async def send(_: object) -> None:
    """Send nothing."""


def collect(times: RequestTimes | EventCounter) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in times.collect():
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_buckets_count_requests_up_to_each_bound() -> None:
    times, durations = RequestTimes(), [0.0, 0.0002, 0.0003, 0.0009, 0.002, 0.3, 15, 17, 3_600]
    for seconds in durations:
        times.add(Line("GET /version", 200, seconds))

    found = collect(times)

    buckets = {le: count for (*_, le), count in found["penstock_request_seconds_bucket"].items()}
    assert [float(le) for le in buckets] == [*BOUNDS, float("inf")]
    assert [*buckets.values()] == [sum(each < bound for each in durations) for bound in (*BOUNDS, float("inf"))]
    assert found["penstock_request_seconds_sum"]["GET", "/version"] == pytest.approx(sum(durations))
    assert (BOUNDS[0], BOUNDS[-1]) == (0.000_25, 16.384)


def test_request_without_an_answer_or_a_route_is_counted_as_such() -> None:
    times = RequestTimes()
    times.add(Line("GET /feeds/{event_type}", 0, -5.0))
    times.add(Line(NO_ROUTE, 404))

    found = collect(times)

    assert found["penstock_requests_total"] == {("GET", "/feeds/{event_type}", "0"): 1, ("", "-", "404"): 1}
    assert found["penstock_request_seconds_count"]["GET", "/feeds/{event_type}"] == 0


def test_counter_has_a_limited_number_of_event_types() -> None:
    counter = EventCounter("penstock_events_published", "Events.")
    for number in range(VOLUMES_MAX + 3):
        counter.add(f"type.{number}", 2)
    counter.add("type.0", 1)

    counts = collect(counter)["penstock_events_published_total"]

    assert len(counts) == VOLUMES_MAX + 1
    assert (counts["type.0",], counts[OTHERS,]) == (3, 6)


def test_committer_counts_a_limited_number_of_event_types(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "VOLUMES_MAX", 2)
    store = open_store(sqlite_url)
    store.migrate()
    hub = Hub(store)
    for number in range(4):
        hub.registry.create(an_event_type(f"type.{number}"))
        hub.log.publish(f"type.{number}", [NewEvent.of(b'{"n":1}')] * 3)
    volumes = hub.committer.volumes()
    hub.stop()

    assert volumes == {"type.0": (3, 21), "type.1": (3, 21), OTHERS: (6, 42)}
