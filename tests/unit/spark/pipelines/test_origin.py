"""Headers of a forwarded record name the events that it was made from."""

from penstock.spark.pipelines.records import NAMES, origin_of, without_origin


def test_a_record_of_several_events_says_all_their_places() -> None:
    assert origin_of("order.placed", 3, [7, 9], ["a", None]) == {
        "penstock-feed": "order.placed",
        "penstock-partition": "3",
        "penstock-offsets": "[7,9]",
        "penstock-ids": '["a",null]',
    }


def test_events_without_ids_have_none() -> None:
    assert "penstock-ids" not in origin_of("order.placed", 3, [7], [None])


def test_an_earlier_origin_is_left_behind() -> None:
    assert without_origin({"trace": "1"} | dict.fromkeys(NAMES, "old")) == {"trace": "1"}
