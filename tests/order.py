"""The order in which tests run."""

import functools
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLOWEST_FIRST = (
    "soak", "spark", "cli", "promises", "browser", "faults", "processing", "conformance", "client", "server", "docs",
    "outbox", "stores", "bench",
)  # fmt: skip
"""The folders whose files take longest. Workers of pytest-xdist take files in this order, so all end at about once."""


def put_slowest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the slowest folders first, and those of one file in the order that they have."""
    ranks = {folder: rank for rank, folder in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: ranks.get(folder_of(item.path), len(ranks)))


@functools.cache
def folder_of(path: Path) -> str:
    """Return the name of the folder in `tests` that has the file; `.` for files without one, empty for other files."""
    if not path.is_relative_to(TESTS):
        return ""
    return path.relative_to(TESTS).parts[0] if path.parent != TESTS else "."
