import json

import pytest

from penstock.spark.messagedb.places import (
    Place,
    Stretch,
    decode_places,
    encode_places,
    ended,
    opening,
    stretches_between,
)


def test_offsets_are_readable() -> None:
    assert json.dumps(encode_places({"account": Place(17)})) == '{"account": 17}'


@pytest.mark.parametrize("places", [{}, {"account": Place(17)}, {"account": Place(17, 3), "payment": Place(1, 1)}])
def test_offsets_come_back_as_they_were(places: dict[str, Place]) -> None:
    assert decode_places(json.loads(json.dumps(encode_places(places)))) == places


def test_a_micro_batch_reads_from_where_the_one_before_has_ended() -> None:
    start, end = {"account": Place(17, 3), "payment": Place(12)}, {"account": Place(20), "payment": Place(12)}

    assert stretches_between(start, end) == [Stretch("account", 17, 20)]


def test_nothing_lies_between_a_place_and_itself() -> None:
    assert stretches_between({"account": Place(17, 3)}, {"account": Place(17, 3)}) == []


def test_the_first_micro_batch_says_itself_where_it_began() -> None:
    first = {"account": ended(opening({"account": 3})["account"], 17)}

    assert first == {"account": Place(17, 3)}
    assert stretches_between({"account": Place(9)}, first) == [Stretch("account", 3, 17)]
    assert ended(first["account"], 20) == Place(20), "the second one does not"


def test_a_category_that_is_added_is_read_from_its_first_event() -> None:
    assert ended(None, 17) == Place(17, 1)
    assert stretches_between({}, {"account": Place(17)}) == [Stretch("account", 1, 17)]
