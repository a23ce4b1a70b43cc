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


@pytest.mark.parametrize("places", [{}, {"account": Place(17)}, {"account": Place(17, 3), "payment": Place(1, 1)}])
def test_offsets_come_back_as_they_were(places: dict[str, Place]) -> None:
    assert decode_places(json.loads(json.dumps(encode_places(places)))) == places


def test_the_first_micro_batch_says_itself_where_it_began() -> None:
    first = {"account": ended(opening({"account": 3})["account"], 17)}

    assert first == {"account": Place(17, 3)}
    assert stretches_between({"account": Place(9)}, first) == [Stretch("account", 3, 17)]
    assert ended(first["account"], 20) == Place(20), "the second one does not"


@pytest.mark.parametrize(
    ("start", "end", "stretches"),
    [
        (
            {"account": Place(17, 3), "payment": Place(12)},
            {"account": Place(20), "payment": Place(12)},
            [Stretch("account", 17, 20)],
        ),
        ({"account": Place(17, 3)}, {"account": Place(17, 3)}, []),
        ({}, {"account": Place(17)}, [Stretch("account", 1, 17)]),
    ],
    ids=["from the end before", "nothing new", "an added category from its first event"],
)
def test_micro_batch_reads_what_lies_between_two_offsets(
    start: dict[str, Place], end: dict[str, Place], stretches: list[Stretch]
) -> None:
    assert stretches_between(start, end) == stretches
