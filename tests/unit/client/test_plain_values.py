"""Objects that are handed in again are the same events, if they still hold the same."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.client import plain_values
from penstock.client.event import Event
from penstock.client.hub_protocol import HubProtocol
from penstock.client.plain_values import PlainValues
from penstock.core.event import NewEvent


def kept(values: list[Any]) -> tuple[PlainValues, list[Event]]:
    found = PlainValues()
    events = found.events(values)
    for event in events:
        event.line(False, HubProtocol("http://s", 0.0).publishing.line_of)
    found.keep(events, values)
    return found, events


def test_objects_are_known_again_unless_they_were_changed() -> None:
    same, changed, text = {"n": 1}, {"n": 2}, '{"n":3}'
    found, events = kept([same, changed, text])

    changed["n"] = 9
    again = found.events([changed, {"n": 1}, same, text])

    assert [event in events for event in again] == [False, False, True, True]
    assert again[2:] == [events[0], events[2]]


def test_an_event_is_itself() -> None:
    own = Event({"n": 1})
    found, events = kept([own])

    assert events == found.events([own]) == [own]
    assert found.events([own.data]) != [own]


def test_an_object_that_is_there_twice_is_two_each_time() -> None:
    same = {"n": 1}
    found, (first, second) = kept([same, same])
    assert first is not second

    assert found.events([same, same, same])[:2] == [first, second]
    found.drop([first])
    assert found.events([same, same])[0] is second
    assert found.events([same, same])[1] is not first


def test_what_it_is_to_have_beside_it_belongs_to_it() -> None:
    new = NewEvent.of(b'{"n":1}', key="a")
    found, (event,) = kept([new])

    assert found.events([new]) == [event]
    assert found.events([replace(new, key="b")]) != [event]


def test_what_was_told_is_forgotten() -> None:
    values = [{"n": 1}, {"n": 2}]
    found, (first, second) = kept(values)
    found.keep([first, second], values)

    found.drop([first, Event({})])

    again = found.events(values)
    assert (again[0] is first, again[1] is second) == (False, True)
    found.drop([second])
    assert found.events(values)[1] is not second


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_values, "VALUES_MAX", 2)
    values = [{"n": number} for number in range(3)]
    found, events = kept(values)

    found.drop_oldest()

    assert [one is other for one, other in zip(found.events(values), events, strict=True)] == [False, True, True]
