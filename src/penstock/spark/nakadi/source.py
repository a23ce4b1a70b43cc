"""format("nakadi"): Spark's classes for it, each method a line or two over plain functions.

To learn the format's name, Spark loads this file in every session that reads any Python source: what reads is loaded
when it reads.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, NoReturn

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.errors import BadParameter
from penstock.spark.columns import some_of
from penstock.spark.nakadi.columns import SCHEMA
from penstock.spark.nakadi.options import parse_subscription_options
from penstock.spark.source import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader


class SubscriptionDataSource(DataSource):
    """A subscription of a Nakadi server: `format("nakadi")` of `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options of a query. Here, since a wrong one is to be refused before anything runs."""
        super().__init__(options)
        check_pyspark(pyspark.__version__)
        self._chosen = parse_subscription_options(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "nakadi"

    def schema(self) -> StructType:
        """Return all columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002 - it is Spark's to say what it wants
        """Refuse to read a batch: a subscription has no beginning and no end to read between."""
        allowed = "spark.readStream, which with .trigger(availableNow=True) reads what there is and ends"
        detail = f"format('nakadi') cannot be read as a batch; allowed: {allowed}"
        raise BadParameter(detail, parameter="format", value="nakadi", allowed=allowed)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """Return what reads a stream."""
        from penstock.spark.nakadi.stream import SubscriptionStreamReader

        return SubscriptionStreamReader(self._chosen, some_of(SCHEMA, schema))
