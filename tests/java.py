"""How Java runs here."""

from pathlib import Path
from typing import Final

HASTE: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What lives as short as Spark and Kafka in a test is not worth to be compiled well: this halves what they compute."""

QUIET: Final = ("-Xlog:disable", "-Xlog:all=warning:stderr")
"""Java says on standard output, which is the program's, that it does not use an archive of another Spark's classes."""

ARCHIVE: Final = Path(__file__).parent.parent / "build" / "java" / "spark.jsa"
"""The classes of Spark, loaded and verified, as `scripts/archive_spark.py` has left them: this halves it again."""


def spark_options() -> str:
    """Return the options for a JVM of Spark's."""
    archived = (f"-XX:SharedArchiveFile={ARCHIVE}", *QUIET) if ARCHIVE.exists() else ()
    return " ".join([*HASTE, *archived])
