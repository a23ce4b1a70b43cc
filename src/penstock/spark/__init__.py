"""Feeds in Spark: `format("penstock")` of `spark.read`, `readStream`, `write` and `writeStream`, over HTTP alone."""

import os
from typing import Any

from penstock.spark.laptop import session
from penstock.spark.warnings_file import keep_warnings

__all__ = ["periodic", "session"]

keep_warnings(os.environ)


def __getattr__(name: str) -> Any:  # They need PySpark, which the rest says how to install.
    if name == "periodic":
        from penstock.spark.traversals.query import periodic

        return periodic
    raise AttributeError(name)
