"""A processor that is started while another one runs goes on from what that has kept last, and the other one ends."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import CheckpointMoved
from penstock.processing import DatabaseCheckpoints, Inline, MemorySource, Rules, Transactional


class Office:
    """A handler whose effects are rows, in the transaction of its checkpoints; streams fail while they are told to."""

    def __init__(self, url: str) -> None:
        self.source = MemorySource()
        self.checkpoints = DatabaseCheckpoints(url, "office")
        self.failing: set[str] = set()
        self.had: list[tuple[str, Any]] = []
        self._url = url

    def processor(self) -> Inline:
        """Return one more, which is made but not begun with."""
        handler = Transactional(self._url, self._handle, DatabaseCheckpoints(self._url, "office"))
        return Inline(handler, self.source, rules=Rules(attempts_max=1, exhausted="park"))

    def _handle(self, _: Any, spans: Sequence[Any]) -> list[Any]:
        return [ValueError("no") if each.stream in self.failing else self._have(each) for each in spans]

    def _have(self, span: Any) -> None:
        self.had += [(span.stream, event.data) for event in span.events]


@pytest.fixture
def office(database_url: str) -> Office:
    return Office(database_url)


def test_what_was_committed_after_it_was_made_is_not_handled_again(office: Office) -> None:
    first = office.processor()
    office.source.append("S", [0])
    first.drain()
    second = office.processor()
    office.source.append("S", [1])
    first.drain()
    office.source.append("S", [2])

    second.drain()

    assert office.had == [("S", 0), ("S", 1), ("S", 2)]
    with pytest.raises(CheckpointMoved):
        first.drain()


@pytest.mark.parametrize("end", ["retry", "drop"])
def test_what_was_parked_when_it_was_made_and_is_done_since_is_parked_no_more(office: Office, end: Any) -> None:
    first = office.processor()
    office.failing.add("S")
    office.source.append("S", [0])
    first.drain()
    second = office.processor()
    office.failing.clear()
    office.checkpoints.ask("S", end)
    first.drain()

    second.drain()
    office.source.append("S", [1])
    second.drain()

    assert not office.checkpoints.parked()
    assert office.had == [*([("S", 0)] if end == "retry" else []), ("S", 1)]


def test_what_is_parked_after_it_was_made_is_tried_by_it(office: Office) -> None:
    first, second = office.processor(), office.processor()
    office.failing.add("S")
    office.source.append("S", [0])
    first.drain()
    office.failing.clear()

    second.drain()
    assert not office.had
    office.checkpoints.ask("S", "retry")
    second.drain()

    assert office.had == [("S", 0)]
    assert not office.checkpoints.parked()
