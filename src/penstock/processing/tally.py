"""What a processor has read and committed since it began."""

from collections import Counter, defaultdict, deque
from typing import Final

from penstock.processing.engine.item import Batch
from penstock.processing.engine.tranche import Tranche

OK: Final = "ok"
FAILED: Final = "failed"


class Tally:
    """Counts for those who watch a processor. The loop that has the engine is the only one to write here."""

    def __init__(self) -> None:
        self.pages: Counter[str] = Counter()
        """How many were read, by tranche."""
        self.events: Counter[str] = Counter()
        """How many were in them."""
        self.commits: Counter[str] = Counter({OK: 0, FAILED: 0})
        """How many, by what has come of them."""
        self.commits_failing = 0
        """How many in a row have failed."""
        self._arrived: dict[str, deque[int | None]] = defaultdict(deque)
        """By tranche: when the hub took the first event of each batch that is under way."""

    def read(self, batch: Batch) -> None:
        """Take note that a batch was taken in."""
        name, items = batch.tranche, batch.items
        self.pages[name] += 1
        self.events[name] += len(items)
        self._arrived[name].append(getattr(items[0], "received", None) if items else None)

    def committed(self) -> None:
        """Take note that a commit has succeeded."""
        self.commits[OK] += 1
        self.commits_failing = 0

    def commit_failed(self) -> None:
        """Take note that a commit has failed."""
        self.commits[FAILED] += 1
        self.commits_failing += 1

    def oldest(self, tranche: Tranche) -> int | None:
        """Return when the oldest event was taken that is read and not done, in microseconds; None: nobody knows."""
        arrived = self._arrived[tranche.name]
        while len(arrived) > tranche.batches:  # Batches end in the order in which they came.
            arrived.popleft()
        return next((at for at in arrived if at is not None), None)
