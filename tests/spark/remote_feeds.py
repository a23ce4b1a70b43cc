"""Feeds of foreign servers for tests, and a stream that reads one."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.conftest import Query


class RemoteQuery(Query):
    """A stream of a feed from afar; run after run from one checkpoint."""

    format = "zeroeventhub"
    place = ("partition", "number", "data")

    def __init__(self, spark: SparkSession, url: str, folder: Path, **options: str) -> None:
        super().__init__(spark, {"url": url, "landingLocation": str(folder / "landing")} | options, folder)
        self.landing = folder / "landing"

    @property
    def pages(self) -> list[str]:
        """The pages that have landed and are still there, each with its partition."""
        return sorted("/".join(path.parts[-2:]) for path in self.landing.rglob("*.arrow"))
