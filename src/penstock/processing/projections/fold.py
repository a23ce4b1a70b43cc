"""Folds events into one row: those that it has not seen yet, up to the first that cannot be folded."""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

from penstock.processing.engine.item import index_unfit
from penstock.processing.projections.keyed import KeyedEvent
from penstock.processing.projections.table import Row


@dataclass(frozen=True)
class Fold:
    """A pure function from a row and events to a row. It can be sent to other processes.

    Args:
        initial: Makes the state before the first event.
        evolve: Folds an event into a state; None: the row is deleted. It may change the state that it is given.
        wrong: Returns why a state cannot be a row; None: it can.
        is_flat: Whether no field of a state can change but by being replaced.
    """

    initial: Callable[[], Any]
    evolve: Callable[[Any, Any], Any]
    wrong: Callable[[Any], Exception | None]
    is_flat: bool

    def __call__(
        self, row: Row | None, line: str, entries: Sequence[KeyedEvent]
    ) -> tuple[Row | None, KeyedEvent | None, Exception | None]:
        """Return the row with *entries* of one line folded in, and the entry at which that has failed, and why.

        The row is None where nothing has changed.
        """
        positions = {} if row is None else row.positions
        begun = positions.get(line, 0)
        fresh = [entry for entry in entries if entry.index >= begun]
        if len(fresh) < len(entries) and (below := next((each for each in entries if each.index < 0), None)):
            return None, below, index_unfit(below, line)
        state, count, error = self._folded(row, fresh)
        folded = len(fresh)
        while count < folded:  # What has failed may have left its marks on the state: it is made anew.
            folded = count
            state, count, earlier = self._folded(row, fresh[:folded])
            error = earlier or error
        failed = None if error is None else fresh[count]
        if count == 0:
            return None, failed, error
        return Row(state, {**positions, line: fresh[count - 1].next}), failed, error

    def _folded(self, row: Row | None, entries: Sequence[KeyedEvent]) -> tuple[Any, int, Exception | None]:
        """Return the state with *entries* folded in, and how many of them were, up to the first that cannot be.

        Each state is checked, not only the last: which event fails does not depend on how a feed is cut into calls.
        """
        evolve, initial = self.evolve, self.initial
        state = None if row is None or row.state is None else (copy if self.is_flat else deepcopy)(row.state)
        for count, entry in enumerate(entries):
            try:
                state = evolve(initial() if state is None else state, entry.event)
                if state is not None and (wrong := self.wrong(state)):
                    raise wrong
            except Exception as error:  # noqa: BLE001 - It is a failure of this row, and of no other.
                return None, count, error
        return state, len(entries), None
