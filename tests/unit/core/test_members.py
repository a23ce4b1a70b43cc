"""Members of definitions that nothing knows are named, and what was meant."""

from typing import Any

import pytest

from penstock.client.event_types import Traits
from penstock.core.definition import STATISTICS, completed
from penstock.core.members import MEMBERS, Stranger, strangers
from penstock.testing.factories import an_event_type

NAMED = {"audience": "external-public", "partition_count": 1, "max_event_bytes": 65_536}
OWNED = {"event_owner_selector": {"type": "static", "name": "a", "value": "b"}}


@pytest.mark.parametrize(
    ("definition", "at", "meant"),
    [
        ({"partition_stratgy": "hash"}, ("partition_stratgy",), "partition_strategy"),
        ({"partitionKeyFields": []}, ("partitionKeyFields",), "partition_key_fields"),
        ({"Owning_Application": ""}, ("Owning_Application",), "owning_application"),
        ({"partitions": 4}, ("partitions",), "partition_count"),
        ({"retention_time": 1}, ("retention_time",), "options.retention_time"),
        ({"options": {"retention_tiem": 1}}, ("options", "retention_tiem"), "options.retention_time"),
        ({"options": {"labels": {}}}, ("options", "labels"), "labels"),
        ({"authorization": {"reader": []}}, ("authorization", "reader"), "authorization.readers"),
        ({"default_statistic": {"": 1}}, ("default_statistic", ""), None),
        ({"x-team": "a"}, ("x-team",), None),
        ({"version": "1.0.0"}, ("version",), None),
    ],
    ids=str,
)
def test_a_stranger_is_told_with_what_was_meant(definition: dict[str, Any], at: tuple[str, ...], meant: str) -> None:
    assert list(strangers(definition)) == [Stranger(at, meant)]
    assert [meant is None or meant in str(each) for each in strangers(definition)] == [True]


@pytest.mark.parametrize("odd", [{"options": 7}, {"schema": "text"}, {"labels": {"a": "b"}, "annotations": {"c": "d"}}])
def test_what_is_the_owners_own_or_no_object_is_not_looked_into(odd: dict[str, Any]) -> None:
    assert not list(strangers(odd))


def test_everything_that_is_read_is_known() -> None:
    found = completed(an_event_type("a", **NAMED, **OWNED))

    assert not list(strangers(found))
    assert MEMBERS["default_statistic"] == {*STATISTICS}
    assert found.keys() | {"created_at", "updated_at"} == MEMBERS[""]
    assert Traits.__annotations__.keys() - MEMBERS[""] == {"more"}
