from penstock.spark.nakadi.cursors import Place
from penstock.spark.nakadi.landed import Landed, PageName, decode_landed, encode_landed, pages_between

LANDED = Landed("s", "l", "r", 3, {Place("a.b", "1"): "001-0001-000000000000000042", Place("a.b", "0"): "001-0001--1"})


def test_nakadi_offset_is_readable_json_and_decodes_to_itself() -> None:
    assert encode_landed(LANDED) == {
        "subscription": "s",
        "landing": "l",
        "run": "r",
        "page": 3,
        "cursors": {"a.b": {"0": "001-0001--1", "1": "001-0001-000000000000000042"}},
    }
    assert decode_landed(encode_landed(LANDED)) == LANDED


def test_micro_batch_reads_the_pages_landed_since_the_one_before() -> None:
    assert pages_between(LANDED, LANDED._replace(page=5)) == [PageName("l", "r", 3), PageName("l", "r", 4)]
    assert pages_between(LANDED, LANDED) == []


def test_first_micro_batch_of_a_run_begins_with_its_first_page() -> None:
    assert pages_between(LANDED, LANDED._replace(run="next", page=1)) == [PageName("l", "next", 0)]


def test_first_micro_batch_of_a_query_ignores_the_start_offset() -> None:
    other = LANDED._replace(landing="made up anew", page=0)

    assert pages_between(other, LANDED._replace(page=1)) == [PageName("l", "r", 0)]
