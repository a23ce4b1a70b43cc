"""Rows with a running number, given where they are: no row moves to another task for it."""

from itertools import accumulate
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import array, element_at, lit, monotonically_increasing_id, spark_partition_id

from penstock.errors import BadParameter
from penstock.processing.sources.periodic import TRAVERSED_MAX

POSITION: Final = "position"
ROWS_MAX: Final = TRAVERSED_MAX
_IN_PARTITION: Final = (1 << 33) - 1
"""The bits of `monotonically_increasing_id` that count the rows of a partition; those above them are its number."""


def number_rows(rows: DataFrame, first: int) -> DataFrame:
    """Return *rows* with a column `position`: *first*, and on without holes, in the order that they have in Spark.

    Rows are counted, and then numbered. They must be the same both times, in the same partitions: persist them.

    Raises:
        BadParameter: they have such a column already, or there are more of them than a traversal may have.
    """
    if POSITION in (name.lower() for name in rows.columns):
        raise BadParameter(parameter="rows", value=rows.columns, allowed="columns of other names than position")
    counts = {row[0]: row[1] for row in rows.groupBy(spark_partition_id()).count().collect()}
    sizes = [counts.get(partition, 0) for partition in range(max(counts, default=0) + 1)]
    if sum(sizes) > ROWS_MAX:
        raise BadParameter(parameter="rows", value=sum(sizes), allowed=f"up to {ROWS_MAX} rows in a traversal")
    firsts = array(*(lit(first + before) for before in accumulate(sizes[:-1], initial=0)))
    in_partition = monotonically_increasing_id().bitwiseAND(lit(_IN_PARTITION))
    return rows.withColumn(POSITION, element_at(firsts, spark_partition_id() + 1) + in_partition)
