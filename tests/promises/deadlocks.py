"""The deadlocks that PostgreSQL has logged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def deadlocks_in(log: Path) -> Iterator[Callable[[], list[str]]]:
    """Give a function that returns the lines about deadlocks that the server has logged since."""
    start = log.stat().st_size

    def deadlocks() -> list[str]:
        lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
        found = [n for n, line in enumerate(lines) if "deadlock detected" in line]
        return [line for n in found for line in lines[n : n + 12]]

    yield deadlocks
