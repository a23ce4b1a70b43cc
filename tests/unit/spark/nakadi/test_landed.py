from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.nakadi.cursors import Place
from penstock.spark.nakadi.landed import Landed, PageName, decode_landed, encode_landed, pages_between

LANDED = Landed("s", "l", "r", 3, {Place("a.b", "1"): "001-0001-000000000000000042", Place("a.b", "0"): "001-0001--1"})


def test_an_offset_is_what_people_can_read_and_comes_back_as_it_was() -> None:
    assert encode_landed(LANDED) == {
        "subscription": "s",
        "landing": "l",
        "run": "r",
        "page": 3,
        "cursors": {"a.b": {"0": "001-0001--1", "1": "001-0001-000000000000000042"}},
    }
    assert decode_landed(encode_landed(LANDED)) == LANDED


@pytest.mark.parametrize("given", [{}, {"a.b": {"0": 3}}, encode_landed(LANDED) | {"cursors": 3}])
def test_an_offset_of_another_source_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=r"an offset that is not one of format\('nakadi'\)"):
        decode_landed(given)


def test_a_micro_batch_reads_what_was_landed_since_the_one_before() -> None:
    assert pages_between(LANDED, LANDED._replace(page=5)) == [PageName("l", "r", 3), PageName("l", "r", 4)]
    assert pages_between(LANDED, LANDED) == []


def test_the_first_one_of_a_run_begins_with_its_first_page() -> None:
    assert pages_between(LANDED, LANDED._replace(run="next", page=1)) == [PageName("l", "next", 0)]


def test_the_first_one_of_a_query_does_so_whatever_it_is_said_to_begin_with() -> None:
    other = LANDED._replace(landing="made up anew", page=0)

    assert pages_between(other, LANDED._replace(page=1)) == [PageName("l", "r", 0)]
