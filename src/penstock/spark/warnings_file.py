"""Copies our warnings to a file, for the program that has started Spark and shows them to users.

Sources and sinks log warnings as `penstock.spark` in processes that Spark starts, among many lines of Spark's own.
"""

import logging
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "PENSTOCK_SPARK_WARNINGS"
"""Of the environment: the file's name."""


def warnings_into(file: str) -> logging.Handler:
    """Return what writes each warning as a line at the end of *file*."""
    handler = logging.FileHandler(file, encoding="utf-8", delay=True)
    handler.setLevel(logging.WARNING)
    return handler


def keep_warnings(environment: Mapping[str, str]) -> None:
    """Have this process write its warnings to the file that *environment* names, beside stderr; where it names one."""
    if VARIABLE in environment:
        for handler in (warnings_into(environment[VARIABLE]), logging.StreamHandler()):
            logging.getLogger("penstock.spark").addHandler(handler)
