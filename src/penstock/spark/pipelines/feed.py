"""The feed of a hub, as a place where events go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.sink_options import parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True)
class HubFeed:
    """A feed of the hub at a URL.

    Raises:
        BadParameter: an option is missing, unknown or wrong.
    """

    url: str
    event_type: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of `format("penstock")` for writing, such as `onInvalid`."""

    def __post_init__(self) -> None:
        parse_sink_options(self._all())

    def write(self, records: "DataFrame") -> "DataStreamWriter":
        """Return what publishes *records*, each once, in their order.

        The partition that a record comes from is the one it goes to where the event type has its producers choose.
        """
        from pyspark.sql.functions import col

        return self.publish(records.select(col("value").alias("data"), "key", "headers", "partition"))

    def publish(self, events: "DataFrame") -> "DataStreamWriter":
        """Return what publishes *events*, in columns as `format("penstock")` takes them, each once."""
        return events.writeStream.format("penstock").options(**self._all())

    def _all(self) -> dict[str, str]:
        return {**self.options, "url": self.url, "eventType": self.event_type}
