"""Feeds in Spark: `format("penstock")` of `spark.read`, `readStream`, `write` and `writeStream`, over HTTP alone."""

from typing import Any

from penstock.spark.laptop import session

__all__ = ["direct", "session"]


def __getattr__(name: str) -> Any:
    if name == "direct":  # It needs PySpark, which the rest says how to install.
        from penstock.spark.direct_rows import direct

        return direct
    raise AttributeError(name)
