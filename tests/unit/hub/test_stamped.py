"""What a numbered batch is, and of which bytes its digests are made."""

from typing import Any

import pytest

from penstock.core.producer import Stamp, digests_of
from penstock.hub.stamped import Stamped, Who, handed_bytes
from penstock.testing.factories import a_new_event

OTHERS: dict[str, dict[str, Any]] = {
    "alone": {},
    "another": {"event": b'{"n":2}'},
    "the same in other words": {"event": b'{"n": 1}'},
    "with a key": {"key": "k"},
    "with another key": {"key": "l"},
    "with an empty key": {"key": ""},
    "with a header": {"headers": {"a": "1"}},
    "with another header": {"headers": {"a": "2"}},
    "with a header of another name": {"headers": {"b": "1"}},
    "with two headers": {"headers": {"a": "1", "b": "1"}},
    "with a key and a header": {"key": "k", "headers": {"a": "1"}},
    "with a key that looks like headers": {"key": '{"a":"1"}'},
    "with a key in signs": {"key": 'k",{"a":"1'},
}


def handed(**others: Any) -> bytes:
    given = {"event": b'{"n":1}'} | others
    return handed_bytes(a_new_event(given.pop("event"), **given))


def test_whatever_a_reader_can_tell_apart_has_other_bytes() -> None:
    assert len({handed(**others) for others in OTHERS.values()}) == len(OTHERS)


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_what_is_handed_in_again_has_the_same_bytes(others: dict[str, Any]) -> None:
    assert handed(**others) == handed(**others)


def test_an_event_by_itself_has_its_own_bytes() -> None:
    assert handed(event=b' {"n":1}\t') == b' {"n":1}\t'


def test_the_order_of_headers_is_none() -> None:
    assert handed(headers={"a": "1", "b": "2"}) == handed(headers={"b": "2", "a": "1"})


def test_the_partition_that_an_event_asks_for_is_not_of_it() -> None:
    """All of a batch go to one partition, which its digests are kept with."""
    assert handed(partition=3) == handed()


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_batch_has_as_many_events_as_digests(count: int) -> None:
    digests = digests_of(b"%d" % n for n in range(count))

    assert Stamped(Who("a", 0, "g"), Stamp(0, 0), digests).events == count
