"""Which combinations of parameters `make test` runs."""

from collections import Counter
from itertools import product
from typing import Any

import pytest

from tests.exhaustive import chosen, is_of_databases, mark_combinations

INPUTS, DATABASES, CLIENTS = [f"input {n}" for n in range(30)], ["sqlite", "postgres"], ["sync", "async"]


@pytest.mark.parametrize(
    "tables", [(DATABASES,), (DATABASES, CLIENTS), (INPUTS, DATABASES), (CLIENTS, INPUTS, DATABASES)]
)
def test_each_value_is_chosen_in_as_few_cases_as_the_longest_table_has(tables: tuple[list[str], ...]) -> None:
    cases = [frozenset(case) for case in product(*tables)]

    found = [cases[number] for number in chosen(cases)]

    assert frozenset().union(*found) == {value for table in tables for value in table}
    assert len(found) == max(map(len, tables))


def test_databases_take_turns() -> None:
    cases: list[frozenset[Any]] = [frozenset(case) for case in product(INPUTS, DATABASES)]

    uses = Counter(value for number in chosen(cases) for value in cases[number])

    assert uses["sqlite"] == uses["postgres"] == len(INPUTS) // 2


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["sqlite", "postgres"], True),
        (["sqlite_url", "postgres_url"], True),
        (["sqlite", "sqlite-late"], False),
        (["sqlite", "memory"], False),
        (["sqlite", "postgres", "postgres-late"], False),
    ],
)
def test_cases_differ_by_their_database_alone(ids: list[str], *, expected: bool) -> None:
    assert is_of_databases(ids) is expected


@pytest.mark.parametrize("is_promise", [False, True])
def test_one_database_of_two_runs_unless_a_promise_is_shown(pytester: pytest.Pytester, *, is_promise: bool) -> None:
    items = pytester.getitems(
        "import pytest\n@pytest.mark.parametrize('url', ['sqlite', 'postgres'])\ndef test_it(url): ...\n"
    )
    mark_combinations(items, lambda _: is_promise)
    assert sum(item.get_closest_marker("exhaustive") is None for item in items) == 1 + is_promise
