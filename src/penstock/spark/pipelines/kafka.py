"""Topics of Kafka, and so Event Hubs, through Spark's own connector."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.laptop import check_format
from penstock.spark.options import bad_option
from penstock.spark.pipelines.watching import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The package to add to a session, in the version that is tested, also with later versions of Spark."""
_BROKERS: Final = re.compile(r"[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*")


@dataclass(frozen=True)
class Kafka:
    """Topics at brokers of Kafka.

    Raises:
        BadParameter: the brokers are no addresses.
    """

    brokers: str
    """Addresses, separated by commas: `localhost:9092`."""
    topic: str | None = None
    """Where to; None: the topic that is called as the event type. Where from: one, or several separated by commas."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further options of Spark's connector, such as `kafka.security.protocol`. They may hold secrets."""

    def __post_init__(self) -> None:
        if not _BROKERS.fullmatch(self.brokers):
            raise bad_option("brokers", self.brokers, "addresses with ports, separated by commas: localhost:9092")

    def write(self, records: "DataFrame") -> "DataStreamWriter":
        """Return what sends *records*, each at least once, those of one key in their order.

        Raises:
            RequirementMissing: the session has no connector.
        """
        from pyspark.sql.functions import coalesce, col, expr, lit

        check_kafka(records.sparkSession)
        topic = coalesce(lit(self.topic), col("event_type")).alias("topic")
        # Kafka's headers are a list, whose values are bytes.
        headers = expr("transform(map_entries(headers), h -> struct(h.key AS key, CAST(h.value AS binary) AS value))")
        sent = records.select(topic, "key", "value", headers.alias("headers"))
        return sent.writeStream.format("kafka").options(**self.settings())

    def read(self, spark: "SparkSession") -> "DataFrame":
        """Return the records of the topics, from their beginning on: their values as bytes, keys and headers.

        A record's headers say from which topic, partition and offset it is.

        Raises:
            BadParameter: no topic is named.
            RequirementMissing: the session has no connector.
        """
        from pyspark.sql.functions import expr

        if not self.topic:
            raise bad_option("topic", self.topic, "the topic to read, or several separated by commas")
        check_kafka(spark)
        reading: dict[str, Any] = {"subscribe": self.topic, "startingOffsets": "earliest", **self.settings()}
        found = spark.readStream.format("kafka").options(includeHeaders="true", **reading).load()
        found = found.observe(OBSERVED, expr("max(CAST(timestamp AS double)) AS newest"))
        key = expr("make_valid_utf8(CAST(key AS string)) AS key")
        return found.select(key, "value", expr(HEADERS).alias("headers"))

    def settings(self) -> dict[str, str]:
        """Return the options of Spark's connector."""
        return {"kafka.bootstrap.servers": self.brokers, **self.options}


def check_kafka(spark: "SparkSession") -> None:
    """Raise RequirementMissing, with a remedy, unless the session has Spark's connector for Kafka."""
    check_format(spark, "kafka", f"spark.jars.packages={CONNECTOR}")


_OWN: Final = """
    transform(
        filter(
            coalesce(headers, array()),
            (h, place) -> h.value IS NOT NULL
                AND h.key NOT IN ('kafka-topic', 'kafka-partition', 'kafka-offset')
                AND NOT exists(slice(headers, place + 2, size(headers)), later -> later.key = h.key)
        ),
        h -> struct(make_valid_utf8(h.key) AS key, make_valid_utf8(CAST(h.value AS string)) AS value)
    )
"""
"""A record's own headers; the last of those of one name counts."""
HEADERS: Final = f"""
    map_concat(
        map_from_entries({_OWN}),
        map('kafka-topic', topic, 'kafka-partition', CAST(partition AS string), 'kafka-offset', CAST(offset AS string))
    )
"""
