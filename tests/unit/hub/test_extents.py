import pytest

from penstock.core.consumer_group import Extent
from penstock.errors import UnusablePosition
from penstock.hub.extents import Extents
from penstock.storage import Store
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import NAME, filled


def test_a_partition_is_found_with_what_it_has(store: Store) -> None:
    filled(store, partition_count=2, events=3)

    with store.read() as tx:
        extents = Extents(tx)
        assert extents.count(NAME) == 2
        assert extents.count("unheard.of") == extents.count("\x00") == 0
        assert extents.at(NAME, 1, 0) == Extent(1, 0, 3)
        assert extents.since(START_AT + 1, [(NAME, 0), (NAME, 1)]) == {(NAME, 0): 1, (NAME, 1): 1}


@pytest.mark.parametrize(
    ("name", "partition", "reason"),
    [
        (NAME, 2, "partitions are numbered from 0 to 1"),
        (NAME, -1, "partitions are numbered from 0 to 1"),
        ("unheard.of", 0, "there is no such event type"),
    ],
    ids=["too high", "too low", "no event type"],
)
def test_what_is_not_there_is_named_by_its_item(store: Store, name: str, partition: int, reason: str) -> None:
    filled(store, partition_count=2, events=0)

    with store.read() as tx, pytest.raises(UnusablePosition) as told:
        Extents(tx).at(name, partition, 7)

    assert told.value.fields == {"item": 7, "event_type": name, "partition": partition, "reason": reason}
