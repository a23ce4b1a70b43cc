"""What a micro-batch may take at most, in Spark's words and in ours."""

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows


def events_max(limit: ReadLimit) -> int | None:
    """Return how many events Spark's *limit* allows, None when there is none."""
    match limit:
        case ReadAllAvailable():
            return None
        case ReadMaxRows():
            return limit.max_rows
    raise TypeError(f"{limit} is a limit that this source has not named")
