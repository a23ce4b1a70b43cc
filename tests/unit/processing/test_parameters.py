"""What processing is told wrongly is refused by its name, whoever is told it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.changes import Changes
from penstock.processing.duplicates import Duplicates
from penstock.processing.held_back import HeldBack
from penstock.processing.latest import Latest
from penstock.processing.parameters import check_consumer, check_count, check_seconds

CHANGES = Changes("order.changed", entity=["data.order_id"], order_by=["data.version"])


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        Latest(connection, CHANGES, "search").create()
        yield connection


def refused(call: Any) -> tuple[str, Any]:
    with pytest.raises(BadParameter) as caught:
        call()
    return caught.value.fields["parameter"], caught.value.fields["value"]


@pytest.mark.parametrize("value", ["x", "5", 0, -1, 1.5, True, None, float("nan")], ids=repr)
def test_a_number_of_events_is_a_whole_one_from_1(connection: sqlite3.Connection, value: Any) -> None:
    assert refused(lambda: check_count("limit", value))[0] == "limit"
    assert refused(lambda: HeldBack(limit=value))[0] == "limit"
    assert refused(lambda: HeldBack(remembered=value))[0] == "remembered"
    assert refused(lambda: Duplicates(connection, "a", "b", window_events=value))[0] == "window_events"


@pytest.mark.parametrize("value", ["x", -1, -0.5, True, None, float("nan"), float("inf")], ids=repr)
def test_a_span_is_told_in_seconds(connection: sqlite3.Connection, value: Any) -> None:
    latest = Latest(connection, CHANGES, "search")

    assert refused(lambda: check_seconds("seconds", value))[0] == "seconds"
    assert refused(lambda: latest.forget_deleted(value))[0] == "seconds"
    if value is not None:  # Then there is no such window.
        assert refused(lambda: Duplicates(connection, "a", "b", window_seconds=value))[0] == "window_seconds"


def test_deletions_may_be_forgotten_at_once_but_a_window_is_more_than_nothing(connection: sqlite3.Connection) -> None:
    Latest(connection, CHANGES, "search").forget_deleted(0)

    assert refused(lambda: Duplicates(connection, "a", "b", window_seconds=0)) == ("window_seconds", 0)


@pytest.mark.parametrize("name", [None, "", 5, b"search"], ids=repr)
def test_a_consumer_has_a_name(connection: sqlite3.Connection, name: Any) -> None:
    assert refused(lambda: check_consumer(name)) == ("consumer", name)
    assert refused(lambda: Latest(connection, CHANGES, name)) == ("consumer", name)
    assert refused(lambda: Duplicates(connection, "a", name)) == ("consumer", name)
