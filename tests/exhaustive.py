"""How much of a test runs in `make test`, and how much in `make test-all` only.

A whole test that is for `make test-all` only bears `@pytest.mark.exhaustive`. `make test` runs few combinations of the
parameters of a test: see `mark_combinations`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest
from hypothesis import settings

MARKER: Final = "exhaustive"
PROFILE: Final = "exhaustive"
"""The Hypothesis profile of `make test-all`: many examples, other ones in each run."""


def exhaustive(*values: Any, id: str | None = None) -> Any:
    """Return a case for `parametrize` that runs in `make test-all` only."""
    return pytest.param(*values, marks=pytest.mark.exhaustive, id=id)


ON_SQLITE: Final = pytest.mark.parametrize(
    "migrated_url", ["sqlite", exhaustive("migrated_postgres", id="postgres")], indirect=True
)
"""Marks a test of a promise that is about files, in which no database has a part: `make test` runs it on SQLite."""


def seeds(few: int, many: int) -> list[Any]:
    """Return the seeds from 0 to *many*, as cases for `parametrize`; `make test` runs the first *few*."""
    return [*range(few), *(exhaustive(seed) for seed in range(few, many))]


def is_exhaustive() -> bool:
    """Return whether this run looks at many examples."""
    return settings.get_current_profile_name() == PROFILE


def examples(few: int, many: int) -> int:
    """Return how many examples a property is checked with: *few*, or *many* in `make test-all`."""
    return many if is_exhaustive() else few


def mark_combinations(items: Iterable[pytest.Item], shows_a_promise: Callable[[Path], bool] = lambda _: False) -> None:
    """Mark what `make test` leaves out of the combinations of each test's parameters.

    The cases that stay have each value of each parameter at least once, and use the values equally often: with thirty
    inputs and two databases, each input on one of the databases in turn. A test that only differs by the database runs
    on one of them, unless its file *shows a promise*. Cases that are marked anyway do not count.
    """
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker(MARKER):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        if len(cases[0].callspec._idlist) == 1:  # One table: each case has a value of its own.
            if is_of_databases([case.callspec.id for case in cases]) and not shows_a_promise(cases[0].path):
                cases[crc32(name.encode()) % 2].add_marker(MARKER)
            continue
        values = [frozenset(enumerate(case.callspec._idlist)) for case in cases]  # One id for each table of values.
        kept = set(chosen(values))
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker(MARKER)


def uses_both_databases(item: pytest.Item) -> bool:
    """Return whether the test runs on SQLite and on PostgreSQL in turn."""
    return isinstance(item, pytest.Function) and not {"database_url", "migrated_url"}.isdisjoint(item.fixturenames)


def is_of_databases(ids: Sequence[str]) -> bool:
    """Return whether the *ids* of two cases differ by their database alone.

    >>> is_of_databases(["sqlite_url", "postgres_url"]), is_of_databases(["sqlite", "sqlite-late"])
    (True, False)
    """
    return len(ids) == 2 and ids[0] != ids[1] and len({each.replace("postgres", "sqlite") for each in ids}) == 1


def chosen(cases: Sequence[frozenset[Any]]) -> list[int]:
    """Return the numbers of so few of the *cases* that each of their values is in one of them."""
    missing = {value for case in cases for value in case}
    uses: Counter[Any] = Counter()
    found = []
    while missing:
        best = min(range(len(cases)), key=lambda number: _cost(cases[number], missing, uses))
        found.append(best)
        missing -= cases[best]
        uses.update(cases[best])
    return found


def _cost(case: frozenset[Any], missing: set[Any], uses: Mapping[Any, int]) -> tuple[int, int]:
    return -len(case & missing), sum(uses[value] for value in case)
