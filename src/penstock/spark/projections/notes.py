"""Numbered notes in a folder, of which the newest counts: how positions and the version in use are told in files."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.spark.projections.hadoop import create


class Note(NamedTuple):
    """A note."""

    number: int
    said: dict[str, Any]


class Notes:
    """Notes of a name in a folder: `{name}-1`, `{name}-2`, each made once.

    Args:
        folder: Where they are.
        name: What they are called, without a number.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def path(self, number: int) -> str:
        """Return where a note is."""
        return f"{self._folder}/{self._name}-{number}"

    def newest(self, spark: SparkSession) -> Note | None:
        """Return the newest one; None: there is none."""
        try:
            # Older ones may be removed while they are read.
            read = spark.read.option("ignoreMissingFiles", "true").text(f"{self._folder}/{self._name}-*")
            found = read.select(sf.input_file_name().alias("file"), "value").collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None
        return newest_of(((row["file"], row["value"]) for row in found), self._name)

    def add(self, spark: SparkSession, after: int, said: dict[str, Any]) -> Note | None:
        """Add a note after that of a number, and return it; None: somebody else has added one meanwhile.

        What holds where several do so at once, `hadoop.create` says.
        """
        text, number = json.dumps(said, sort_keys=True), after + 1
        while True:
            create(spark, self.path(number), text)
            # It is looked what counts now: a note is made or not whatever the answer was.
            newest = self.newest(spark)
            if newest is not None and newest.number > after:
                return newest if newest.said == said else None
            # Whoever began that one was killed before it said anything: it never counts.
            number += 1


def newest_of(lines: Iterable[tuple[str, str]], name: str) -> Note | None:
    """Return the newest note among lines of files; what is not whole does not count.

    Args:
        lines: The file, as Spark names it, and the line. A note is a file, or a folder with one in it; of two in a
            folder, which two have written at once, one counts, whoever asks.
        name: What the notes are called.
    """
    found: dict[int, str] = {}
    for file, line in lines:
        match = re.search(rf"/{re.escape(name)}-([0-9]+)(?:/[^/]+)?$", unquote(file))
        if match and _read(line) is not None:
            number = int(match[1])
            found[number] = min(line, found.get(number, line))
    if not found:
        return None
    newest = max(found)
    return Note(newest, _read(found[newest]) or {})


def _read(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
