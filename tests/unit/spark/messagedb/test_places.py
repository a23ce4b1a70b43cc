import json

import pytest

from penstock.spark.messagedb.places import (
    CategoryPlace,
    CategoryRange,
    decode_places,
    encode_places,
    ended,
    opening,
    stretches_between,
)


@pytest.mark.parametrize(
    "places", [{}, {"account": CategoryPlace(17)}, {"account": CategoryPlace(17, 3), "payment": CategoryPlace(1, 1)}]
)
def test_offsets_come_back_as_they_were(places: dict[str, CategoryPlace]) -> None:
    assert decode_places(json.loads(json.dumps(encode_places(places)))) == places


def test_the_first_micro_batch_says_itself_where_it_began() -> None:
    first = {"account": ended(opening({"account": 3})["account"], 17)}

    assert first == {"account": CategoryPlace(17, 3)}
    assert stretches_between({"account": CategoryPlace(9)}, first) == [CategoryRange("account", 3, 17)]
    assert ended(first["account"], 20) == CategoryPlace(20), "the second one does not"


@pytest.mark.parametrize(
    ("start", "end", "stretches"),
    [
        (
            {"account": CategoryPlace(17, 3), "payment": CategoryPlace(12)},
            {"account": CategoryPlace(20), "payment": CategoryPlace(12)},
            [CategoryRange("account", 17, 20)],
        ),
        ({"account": CategoryPlace(17, 3)}, {"account": CategoryPlace(17, 3)}, []),
        ({}, {"account": CategoryPlace(17)}, [CategoryRange("account", 1, 17)]),
    ],
    ids=["from the end before", "nothing new", "an added category from its first event"],
)
def test_micro_batch_reads_what_lies_between_two_offsets(
    start: dict[str, CategoryPlace], end: dict[str, CategoryPlace], stretches: list[CategoryRange]
) -> None:
    assert stretches_between(start, end) == stretches
