"""The formats that are not Spark's own: whether a session has them."""

from typing import TYPE_CHECKING, Final

from penstock.errors import RequirementMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING: Final = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source")


def check_format(spark: "SparkSession", format: str, setting: str) -> None:
    """Raise RequirementMissing, with the *setting* that brings it, unless the session has a format."""
    try:
        _ = spark.read.format(format).load().schema  # Over Spark Connect, only this asks.
    except Exception as error:  # noqa: BLE001 - in any case: it misses options. Of which kind depends on the session.
        if any(each in str(error) for each in _MISSING):
            needed = f"a session of Spark with format({format!r})"
            raise RequirementMissing(needed=needed, found="none", install=f"start it with {setting}") from None
