"""What `penstock demo` leaves behind: processes, rows, and what it has printed."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.cli.command import Command

DEPARTED: Final = "flights.departed"


def mark(penstock: Command) -> Command:
    """Return the command with a mark in its environment, which its child processes inherit."""
    return replace(penstock, environment=penstock.environment | {"DEMO_MARK": str(uuid4())})


def left_running(marked: Command) -> list[str]:
    """Return the command lines of the processes that bear the mark."""
    mark = marked.environment["DEMO_MARK"].encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # It has just ended, or is not ours.
    return found


def gaps(printed: str) -> dict[str, int]:
    """Return the gaps of the consumer groups of Spark, by their names."""
    rows = [line.split() for line in printed.splitlines() if " spark " in line]
    return {row[0]: int(row[-3]) for row in rows}


def counted(directory: Path) -> int:
    """Return how many flights the read model has."""
    with closing(sqlite3.connect(directory / "read_model.db")) as connection:
        return int(connection.execute("SELECT sum(flights) FROM delays").fetchone()[0])
