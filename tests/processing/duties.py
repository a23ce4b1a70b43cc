"""Random behaviour of handlers: they fail, defer, last too long, or do a part or all."""

import threading
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from penstock.processing.outcomes import done_to, retry

Place: TypeAlias = tuple[str, int]
"""A stream, and the index of an event of it."""


class Share(NamedTuple):
    """The events that a call handles, and its outcome."""

    events: Sequence[Any]
    outcome: Any


class Duties:
    """Of each call what it does.

    Args:
        seed: Of chance.
        broken: The events that fail until they are mended.
        slow: The events at which a call lasts too long, the first time.
    """

    def __init__(self, seed: int, broken: frozenset[Place], slow: frozenset[Place]) -> None:
        self._seed = seed
        self._broken = {*broken}
        self._slow = {*slow}
        self._tries: Counter[Place] = Counter()
        self._is_calm = False
        self._turn = threading.Lock()

    def mend(self, count: int) -> None:
        """Mend so many events, or as many as there are."""
        with self._turn:
            self._broken -= {*sorted(self._broken)[:count]}

    def calm(self) -> None:
        """Have all be done from now on that comes."""
        with self._turn:
            self._is_calm = True
            self._broken.clear()

    def is_slow(self, stream: str, events: Sequence[Any]) -> bool:
        """Tell whether a call is to last too long."""
        with self._turn:
            found = self._slow & {(stream, event.index) for event in events}
            self._slow -= found
            return bool(found)

    def chance(self, name: str, index: int) -> float:
        """Return a number from 0 to 1, another one each time; all is well from 0.5 on."""
        with self._turn:
            self._tries[name, index] += 1
            return 1.0 if self._is_calm else Random(f"{self._seed} {name} {index} {self._tries[name, index]}").random()

    def share(self, stream: str, events: Sequence[Any]) -> Share:
        """Return what a call does.

        Raises:
            ValueError: nothing, and it fails.
        """
        chance = self.chance(stream, events[0].index)
        broken = {index for name, index in self._broken if name == stream}
        sound = [event for event in events if event.index < min(broken, default=event.next)]
        if chance < 0.15 or not sound:
            raise ValueError("it is broken")
        if chance < 0.25:
            return Share([], retry(0.001))
        part = sound if chance > 0.4 else sound[: max(1, len(sound) // 2)]
        return Share(part, done_to(part[-1].next))
