"""Which combinations of parameters `make test` runs."""

from collections import Counter
from itertools import product
from typing import Any

import pytest

from tests.exhaustive import chosen

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
