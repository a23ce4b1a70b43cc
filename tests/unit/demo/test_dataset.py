from itertools import islice

import msgspec
import pytest

from penstock.core.events.event import check_events
from penstock.core.registry.event_type import EventType
from penstock_demo.dataset import DEPARTED, Series, load


@pytest.fixture(scope="module")
def series() -> list[Series]:
    return load()


def decoded(each: Series) -> list[dict[str, object]]:
    return [msgspec.json.decode(event.data) for event in each.events()]


def test_dataset_has_all_rows(series: list[Series]) -> None:
    assert {each.event_type: each.count for each in series} == {
        "flights.airlines": 16,
        "flights.airports": 1_458,
        "flights.planes": 3_322,
        "flights.weather": 26_115,
        "flights.departed": 336_776,
    }


def test_departures_are_in_the_order_of_their_scheduled_time(series: list[Series]) -> None:
    scheduled = series[-1].table["scheduled_departure"].to_pylist()

    assert scheduled == sorted(scheduled)
    assert (scheduled[0], scheduled[-1]) == ("2013-01-01T10:15:00Z", "2014-01-01T04:59:00Z")


def test_events_are_valid_and_have_unique_ids(series: list[Series]) -> None:
    for each in series:
        part = Series(
            event_type=each.event_type, definition=each.definition, table=each.table.slice(0, 5_000), event=each.event
        )
        events = list(part.events())
        decoded_events = check_events([bytes(event.data) for event in events])
        assert EventType.parse(each.definition).validator.find_first_invalid(decoded_events) is None
        ids = {event["metadata"]["eid"] for event in decoded(part)}  # type: ignore[index]
        assert len(ids) == part.count


def test_flight_of_an_unknown_aircraft_has_a_key(series: list[Series]) -> None:
    departures = series[-1]
    at = departures.table["tailnum"].to_pylist().index(None)

    event = next(islice(departures.events(), at, None))
    data = msgspec.json.decode(event.data)

    assert departures.event_type == DEPARTED
    assert data["tailnum"] is None
    assert event.key == f"{data['carrier']}{data['flight']}"


@pytest.mark.exhaustive  # To load it takes longer than all the rest, and ids come from the rows alone.
def test_series_is_the_same_when_loaded_again(series: list[Series]) -> None:
    planes = series[2]

    assert list(planes.events()) == list(load()[2].events())
