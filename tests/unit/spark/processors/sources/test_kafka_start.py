from collections.abc import Mapping
from typing import Literal

import pytest

from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.processors.sources.frames import Head
from penstock.spark.processors.sources.kafka import SparkKafkaSource


class Brokers(SparkKafkaSource):
    """Has partitions that a test says."""

    found: Mapping[str, Head]

    def heads(self) -> Mapping[str, Head]:
        """Return them."""
        return self.found


HEADS = {"orders/0": Head(3, 10), "orders/1": Head(4, 20), "returns/0": Head(5, 30)}


def find_beginnings(start: Literal["earliest", "latest"], *kept: str) -> dict[str, object]:
    source = Brokers(Kafka("localhost:9092", "orders,returns"), start=start)
    source.found = HEADS
    return {each: source.beginning(each, kept) for each in source.tranches() if each not in kept}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ((), {"orders/0": 10, "orders/1": 20, "returns/0": 30}),
        (("orders/0",), {"orders/1": 4, "returns/0": 30}),
        (("returns/0",), {"orders/0": 10, "orders/1": 20}),
    ],
    ids=["a new processor", "a partition was added", "a topic was added"],
)
def test_latest_applies_to_new_topics_and_not_to_partitions_added_later(
    kept: tuple[str, ...], expected: dict[str, object]
) -> None:
    assert find_beginnings("latest", *kept) == expected
    assert find_beginnings("earliest", *kept) == {each: HEADS[each].first for each in expected}


def test_partition_added_while_reading_starts_at_its_first_offset() -> None:
    source = Brokers(Kafka("localhost:9092", "orders"), start="latest")
    source.found = {"orders/0": Head(3, 10)}
    assert source.beginning("orders/0") == 10
    source.found = {"orders/0": Head(3, 12), "orders/1": Head(0, 5)}
    source.look()
    assert (source.beginning("orders/0"), source.beginning("orders/1")) == (10, 0)
