"""Which stream comes next: whoever holds a position back, then the others as they came, and troubled ones in between.

Troubled streams, which have failed or got nowhere, have their share of the handlers and no more, however many they are:
healthy ones do not wait for them.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final

from penstock.processing.engine.stream import Stream

TROUBLED_SHARE: Final = 0.25
"""Of the calls under way, while healthy streams wait; one at least."""


class Ready:
    """The streams that can be handed out, and those that wait for their time. Each stands here once."""

    def __init__(self) -> None:
        self._urgent: deque[Stream] = deque()
        self._healthy: deque[Stream] = deque()
        self._troubled: deque[Stream] = deque()
        self._held: list[tuple[float, int, Stream]] = []
        self._count = 0
        self._was_troubled = False

    def __len__(self) -> int:
        """How many there are that can be handed out, as far as the time was told."""
        return len(self._urgent) + len(self._healthy) + len(self._troubled)

    @property
    def due(self) -> float | None:
        """When the next one of those comes that wait for their time; None: none waits."""
        return self._held[0][0] if self._held else None

    def add(self, stream: Stream) -> None:
        """Add a stream that has something to be handled."""
        if not stream.is_listed:
            stream.is_listed = True
            self._file(stream)

    def hold(self, stream: Stream, until: float) -> None:
        """Add a stream that is not to be handed out before *until*."""
        stream.is_listed = True
        self._count += 1
        heappush(self._held, (until, self._count, stream))

    def wake(self, now: float) -> None:
        """Move those on whose time has come."""
        while self._held and self._held[0][0] <= now:
            self._file(heappop(self._held)[2])

    def next(self, troubled: int, concurrency: int) -> Stream | None:
        """Take out who comes next, while so many *troubled* streams are with handlers, of *concurrency*."""
        chosen, is_troubled = self._urgent or self._healthy, False
        if self._troubled:
            is_full = self._was_troubled or troubled >= max(1, int(concurrency * TROUBLED_SHARE))
            if not (chosen and is_full):
                chosen, is_troubled = self._troubled, True
        self._was_troubled = is_troubled
        if not chosen:
            return None
        stream = chosen.popleft()
        stream.is_listed = False
        return stream

    def _file(self, stream: Stream) -> None:
        if stream.attempts or stream.has_stalled:
            self._troubled.append(stream)
        elif (wants := stream.wants) and wants[0].running.number == wants[0].tranche.oldest:
            self._urgent.append(stream)
        else:
            self._healthy.append(stream)
