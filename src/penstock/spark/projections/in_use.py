"""Which version of a projection in files is in use: told beside the folders of the versions, in numbered notes."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.projections.notes import Notes


class VersionInUse:
    """Says which version of a projection is in use.

    Args:
        path: A folder for all versions.
        name: Of the projection.
    """

    def __init__(self, path: str, name: str) -> None:
        self._notes = Notes(path, f"in-use-{name}")
        self._is_told = False

    def find(self, spark: SparkSession) -> str | None:
        """Return the processor of the version that is in use; None: there is none."""
        newest = self._notes.newest(spark)
        return None if newest is None else str(newest.said["projection"])

    def begin(self, spark: SparkSession, processor: str) -> None:
        """Have a version be in use if none is."""
        if not self._is_told and self.find(spark) is None:
            self._notes.add(spark, 0, _said(processor))
        self._is_told = True

    def switch(self, spark: SparkSession, processor: str) -> None:
        """Have a version be in use, whichever is."""
        while True:
            newest = self._notes.newest(spark)
            if newest is not None and newest.said == _said(processor):
                return
            number = 0 if newest is None else newest.number
            if self._notes.add(spark, number, _said(processor)) is not None:
                return


def _said(processor: str) -> dict[str, Any]:
    return {"projection": processor}
