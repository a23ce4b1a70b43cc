import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

from penstock.spark.planning import events_max


def test_events_max_follows_the_read_limit_of_spark() -> None:
    assert events_max(ReadAllAvailable()) is None
    assert events_max(ReadMaxRows(7)) == 7
    with pytest.raises(TypeError, match="ReadMaxFiles"):
        events_max(ReadMaxFiles(7))
