"""Numbered notes in a folder, of which the newest counts: how positions and the version in use are told in files."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.errors import Unavailable
from penstock.spark.projections.hadoop import create, found


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
        pattern = f"{self._folder}/{self._name}-*"
        while paths := found(spark, pattern):
            try:
                read = spark.read.option("ignoreMissingFiles", "true").text(paths)
                lines = read.select(sf.input_file_name().alias("file"), "value").collect()
            except AnalysisException as error:
                if error.getCondition() != "PATH_NOT_FOUND":
                    raise
                if paths == [pattern]:
                    return None
                continue  # An older one was removed meanwhile.
            return newest_of(((row["file"], row["value"]) for row in lines), self._name)
        return None

    def add(self, spark: SparkSession, after: int, said: dict[str, Any]) -> Note | None:
        """Add a note after that of a number, and return it; None: somebody else has added one meanwhile.

        What holds where several do so at once, `hadoop.create` says.

        Raises:
            Unavailable: it was written, and is not found.
        """
        text, number = json.dumps(said, sort_keys=True), after + 1
        while True:
            is_made = create(spark, self.path(number), text)
            # Where two can make the same one, what is read decides.
            newest = self.newest(spark)
            if newest is not None and newest.number > after:
                return newest if newest.said == said else None
            if is_made:
                raise Unavailable(reason=f"{self.path(number)} was written, and is not found")
            # Whoever began that one was killed before it said anything: it never counts.
            number += 1


def newest_of(lines: Iterable[tuple[str, str]], name: str) -> Note | None:
    """Return the newest note among lines of files; what is not whole does not count.

    Args:
        lines: The file, as Spark names it, and the line. A note is a file, or a folder with one in it; of two in a
            folder, which two have written at once, one counts, whoever asks.
        name: What the notes are called.
    """
    told: dict[int, str] = {}
    for file, line in lines:
        match = re.search(rf"/{re.escape(name)}-([0-9]+)(?:/[^/]+)?$", unquote(file))
        if match and _read(line) is not None:
            number = int(match[1])
            told[number] = min(line, told.get(number, line))
    if not told:
        return None
    newest = max(told)
    return Note(newest, _read(told[newest]) or {})


def _read(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
