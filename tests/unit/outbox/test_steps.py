"""What is said to the database, and in which order."""

from typing import Any

import msgspec
import pytest

from penstock.errors import EventTypeNotFound
from penstock.outbox.adapters import Parameters, Row
from penstock.outbox.entry import Entry
from penstock.outbox.steps import CHUNK_CHARS, CHUNK_ROWS, creating, publishing


class Script:
    """A connection on which nothing happens, but which knows an event type."""

    is_async = False

    def __init__(
        self, dialect: Any = "sqlite", *, category: str | None = "undefined", may_have_read: bool = False
    ) -> None:
        self.dialect = dialect
        self.may_have_read = may_have_read
        self._category = category
        self.said: list[tuple[str, Parameters | None]] = []

    def run(self, statement: str, parameters: Parameters | None = None) -> Row:
        self.said.append((statement, parameters))
        return (self._category,) if statement.startswith("SELECT") and self._category else None

    def play(self, plan: Any) -> list[Any]:
        """Do what *plan* says; return what each insert was given."""
        steps, row = plan(self), None
        try:
            while True:
                row = self.run(*steps.send(row))
        except StopIteration:
            given = [parameters for _, parameters in self.said if parameters and "events" in parameters]
            return [msgspec.json.decode(parameters["events"]) for parameters in given]


def entry(data: str) -> Entry:
    return Entry(data, None, None, None)


def test_rows_go_in_by_statements_of_limited_length() -> None:
    chunks = Script().play(publishing("t", [entry(str(number)) for number in range(2 * CHUNK_ROWS + 1)]))

    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert [row[0] for chunk in chunks for row in chunk] == [str(number) for number in range(2 * CHUNK_ROWS + 1)]


def test_large_rows_go_in_by_statements_of_limited_size() -> None:
    third = "x" * (CHUNK_CHARS // 3)

    chunks = Script().play(publishing("t", [entry(third)] * 7 + [entry("x" * (CHUNK_CHARS + 1))]))

    assert [len(chunk) for chunk in chunks] == [3, 3, 1, 1]


def test_nothing_is_inserted_for_an_unknown_event_type() -> None:
    script = Script(category=None)

    with pytest.raises(EventTypeNotFound):
        script.play(publishing("t", [entry("{}")]))

    assert [statement.split()[0] for statement, _ in script.said] == ["SELECT"]


def test_the_write_lock_is_asked_for_before_anything_is_read() -> None:
    script = Script(may_have_read=True)

    script.play(publishing("t", [entry("{}")]))

    assert [statement.split()[0] for statement, _ in script.said] == ["INSERT", "SELECT", "INSERT"]


def test_metadata_is_filled_in_by_category() -> None:
    [[[data, *_]]] = Script(category="data").play(publishing("t", [entry("{}")]))

    assert set(msgspec.json.decode(data)["metadata"]) == {"eid", "occurred_at"}


@pytest.mark.parametrize(("dialect", "count"), [("sqlite", 2), ("postgresql", 1)])
def test_the_table_is_created_by_statements_that_drivers_take(dialect: str, count: int) -> None:
    script = Script(dialect)

    script.play(creating)

    assert len(script.said) == count
