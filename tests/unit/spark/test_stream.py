from penstock.spark.columns import source_schema, wanted_columns
from penstock.spark.options import parse_options
from penstock.spark.stream import FeedStreamReader


def reader(**options: str) -> FeedStreamReader:
    chosen = parse_options({"url": "http://localhost:1", "eventType": "a"} | options)
    return FeedStreamReader(chosen, wanted_columns(source_schema(chosen), chosen), {})


def test_a_micro_batch_is_planned_from_its_ends_alone() -> None:
    start, end = {"a": {"epoch": 1, "0": 3}}, {"a": {"epoch": 1, "0": 9}}

    [task] = reader().partitions(start, end)

    assert task.value == (("a", 1, 1, 0, 3, 9),)
    assert reader().partitions(end, end) == []
