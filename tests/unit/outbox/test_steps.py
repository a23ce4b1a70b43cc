"""The statements of a publish, in their order."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest

from penstock.core.events.event import NewEvent
from penstock.core.registry.event_type import EventType
from penstock.errors import EventTypeNotFound, InvalidEvent, Unavailable
from penstock.outbox.adapters import ResultRow, SqlParameters
from penstock.outbox.dialects import Dialect, statement
from penstock.outbox.entry import OutboxEntries
from penstock.outbox.steps import CHUNK_CHARS, CHUNK_ROWS, plan_publish
from penstock.testing.factories import an_event_type

NAMES: dict[Dialect, list[str]] = {
    "postgresql": ["find", "insert", "insert_one"],
    "sqlite": ["find", "insert", "insert_one", "lock"],
}
NEEDS_N = {"type": "json_schema", "schema": '{"required":["n"]}', "version": "1.0.0"}


class Script:
    """A connection to a database with one event type, whose definition changes from statement to statement."""

    is_async = False

    def __init__(
        self, *definitions: EventType | None, dialect: Any = "postgresql", may_have_read: bool = False
    ) -> None:
        self.dialect = dialect
        self.may_have_read = may_have_read
        self._definitions = list(definitions)
        """What the event type is at the first statement, and becomes after each insert that fails."""
        self.said: list[str] = []
        self.inserted: list[Any] = []

    def run(self, text: str, parameters: SqlParameters | None = None) -> ResultRow:
        [name] = [each for each in NAMES[self.dialect] if statement(self.dialect, each) == text]
        self.said.append(name)
        now, given = self._definitions[0] if self._definitions else None, parameters or {}
        if name == "find":
            if now is None:
                return None
            unchanged = given["known"] == now.fingerprint
            definition = None if unchanged else msgspec.json.encode(now.definition).decode()
            return now.fingerprint, definition, None if unchanged else now.partition_count
        if name.startswith("insert"):
            if not given.get("continues") and given["fingerprint"] != (now and now.fingerprint):
                return (0,)
            self.inserted.append(msgspec.json.decode(str(given["events"])) if "events" in given else given["data"])
            if len(self._definitions) > 1:
                self._definitions.pop(0)
        return (1,)

    def play(self, plan: Any) -> list[Any]:
        """Do what *plan* says; return what each insert was given."""
        steps, row = plan(self), None
        try:
            while True:
                row = self.run(*steps.send(row))
        except StopIteration:
            return self.inserted


def entries(*datas: str) -> OutboxEntries:
    return OutboxEntries([NewEvent.of(data.encode()) for data in datas], None)


def a_type(**definition: Any) -> EventType:
    """An event type of a name of its own, so that no other test has left it in the process's memory."""
    return EventType.parse(an_event_type(f"t-{uuid4()}", **definition))


def plan(event_type: EventType, *datas: str, **told: Any) -> Any:
    return plan_publish(event_type.name, entries(*datas), **({"allow_unknown_type": False} | told))


def test_rows_are_inserted_in_chunks_of_limited_count_and_size() -> None:
    numbers = [f'{{"n":{n}}}' for n in range(2 * CHUNK_ROWS + 1)]
    event_type = a_type()

    chunks = Script(event_type).play(plan(event_type, *numbers))

    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert [row[0] for chunk in chunks for row in chunk] == numbers

    largest = f'{{"a":"{"x" * 900_000}"}}'
    event_type = a_type()

    chunks = Script(event_type).play(plan(event_type, *[largest] * 40))

    assert [len(chunk) for chunk in chunks] == [CHUNK_CHARS // len(largest)] * 2 + [
        40 - 2 * (CHUNK_CHARS // len(largest))
    ]


def test_insert_notices_a_changed_event_type_and_checks_events_again() -> None:
    old = a_type()
    new = EventType.of(old.definition | {"schema": NEEDS_N}, 1)
    Script(old).play(plan(old, "{}"))
    script = Script(new)

    with pytest.raises(InvalidEvent, match="required key"):
        script.play(plan(old, "{}"))
    assert (script.said, script.inserted) == (["insert_one", "find"], [])

    assert script.play(plan(old, '{"n":1}')) == ['{"n":1}']


def test_cached_definition_is_read_again_before_a_refusal() -> None:
    old = a_type(schema=NEEDS_N)
    new = EventType.of(old.definition | {"schema": {"type": "json_schema", "schema": "{}", "version": "2.0.0"}}, 1)
    Script(old).play(plan(old, '{"n":1}'))
    script = Script(new)

    assert script.play(plan(old, "{}"))
    assert script.said == ["find", "insert_one"]


def test_all_chunks_of_a_publish_are_checked_against_one_definition() -> None:
    old = a_type()
    new = EventType.of(old.definition | {"schema": NEEDS_N}, 1)
    script = Script(old, new)

    chunks = script.play(plan(old, *["{}"] * (CHUNK_ROWS + 1)))

    assert [len(chunk) for chunk in chunks] == [CHUNK_ROWS, 1]


def test_event_type_that_keeps_changing_is_unavailable() -> None:
    class Restless(Script):
        def run(self, text: str, parameters: SqlParameters | None = None) -> ResultRow:
            self._definitions = [a_type()]
            return super().run(text, parameters)

    with pytest.raises(Unavailable, match="keeps changing"):
        Restless().play(plan(a_type(), "{}"))


def test_event_type_created_meanwhile_is_checked_although_unknown_ones_are_allowed() -> None:
    class Creating(Script):
        def run(self, text: str, parameters: SqlParameters | None = None) -> ResultRow:
            row = super().run(text, parameters)
            self._definitions = [event_type]
            return row

    event_type = a_type(schema=NEEDS_N)

    with pytest.raises(InvalidEvent, match="required key"):
        Creating().play(plan(event_type, "{}", allow_unknown_type=True))


def test_empty_publish_to_an_unknown_event_type_is_refused() -> None:
    with pytest.raises(EventTypeNotFound):
        Script().play(plan(a_type()))


def test_sqlite_is_locked_before_the_first_read_in_a_transaction() -> None:
    event_type = a_type()
    script = Script(event_type, dialect="sqlite", may_have_read=True)

    for _ in range(2):
        script.play(plan(event_type, "{}", "{}"))

    assert script.said == ["lock", "find", "insert", "insert"]


def test_events_are_checked_before_a_transaction_of_sqlite_begins() -> None:
    event_type = a_type()
    script = Script(event_type, dialect="sqlite")

    for _ in range(2):
        script.play(plan(event_type, "{}", "{}"))

    assert script.said == ["find", "insert", "find", "insert"]
