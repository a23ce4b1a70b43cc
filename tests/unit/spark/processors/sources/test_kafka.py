from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.processors.sources.kafka import KafkaSource


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("kafka", [None, "localhost:9092", Kafka]),
        ("is_hashed", [None, 1, "yes"]),
        ("fail_on_loss", [None, 0, "no"]),
        ("start", ["now", None]),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_a_broker_is_asked(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadParameter, match="allowed: ") as told:
            KafkaSource(**{"kafka": Kafka("localhost:9092", "orders"), name: value})
        assert told.value.fields["parameter"] == name
