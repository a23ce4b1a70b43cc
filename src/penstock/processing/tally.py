"""What a processor has read, completed and committed since it began."""

from collections import Counter, defaultdict, deque
from typing import Final, NamedTuple

from penstock.processing.cpu import Cpu
from penstock.processing.engine.item import Batch
from penstock.processing.engine.stats import Latency
from penstock.processing.engine.tranche import Tranche
from penstock.processing.source_watch import SourceWatch

OK: Final = "ok"
FAILED: Final = "failed"


class TalliedBatch(NamedTuple):
    """A batch that is under way, or a part of one."""

    received: int | None
    """When the hub took its first event, in microseconds since 1970; None: nobody knows."""
    events: int


class Tally:
    """Counts for those who watch a processor. The loop that has the engine is the only one to write here."""

    def __init__(self) -> None:
        self.pages: Counter[str] = Counter()
        """How many were read, by tranche."""
        self.events: Counter[str] = Counter()
        """How many were in them."""
        self.bytes: Counter[str] = Counter()
        """How much that was, of tranches of which their source says so."""
        self.completed: Counter[str] = Counter()
        """How many events were in pages that are done, by tranche."""
        self.reads = Latency()
        """How long it took to read something."""
        self.ingests = Latency()
        """How long the engine took to take a page, or a part of one, in."""
        self.rounds: Latency | None = None
        """How long rounds took; None: it has none."""
        self.round_began: float | None = None
        """When the round began that is under way; None: none is."""
        self.commits: Counter[str] = Counter({OK: 0, FAILED: 0})
        """How many, by what has come of them."""
        self.commits_failing = 0
        """How many in a row have failed."""
        self.commit_failure: str | None = None
        """Why the last of these has."""
        self.commit_began: float | None = None
        """When the commit began that is under way; None: none is, or nobody has said so."""
        self.cpu = Cpu()
        """What its threads compute."""
        self.source = SourceWatch()
        """The last answer of its source, and the time of it."""
        self._pages: dict[str, deque[TalliedBatch]] = defaultdict(deque)
        """Those that are under way, by tranche."""
        self._tranches: dict[str, Tranche] = {}

    def read(self, batch: Batch, took: float = 0.0) -> None:
        """Take note that a batch was taken in, which took so many seconds."""
        name, items = batch.tranche, batch.items
        events = len(items) if batch.size is None else batch.size
        self.pages[name] += not batch.is_part
        self.events[name] += events
        if batch.bytes is not None:
            self.bytes[name] += batch.bytes
        self.ingests.add(took)
        self._pages[name].append(TalliedBatch(getattr(items[0], "received", None) if items else None, events))

    def begin_round(self, now: float) -> None:
        """Take note that a round begins."""
        self.rounds = self.rounds or Latency()
        self.round_began = now

    def end_round(self, now: float) -> None:
        """Take note that the round has ended, however."""
        if self.rounds is not None and self.round_began is not None:
            self.rounds.add(now - self.round_began)
        self.round_began = None

    def committed(self) -> None:
        """Take note that a commit has succeeded."""
        self.commits[OK] += 1
        self.commits_failing = 0
        self.commit_failure = self.commit_began = None

    def commit_failed(self, reason: str) -> None:
        """Take note that a commit has failed."""
        self.commits[FAILED] += 1
        self.commits_failing += 1
        self.commit_failure, self.commit_began = reason, None

    def follow(self, tranche: Tranche) -> None:
        """Take note of the pages of a tranche that are done by now."""
        name, pages = tranche.name, self._pages[tranche.name]
        before = self._tranches.setdefault(name, tranche)
        if before is not tranche:  # It was let go of meanwhile: what was under way then is read again.
            self._tranches[name] = tranche
            while len(pages) > tranche.parts:
                pages.popleft()
        while len(pages) > tranche.parts:  # Pages end in the order in which they came.
            self.completed[name] += pages.popleft().events

    def unanswered_seconds(self, now: float) -> float:
        """Return for how many seconds the source has not answered; 0 during a round, whose tasks read it."""
        return 0.0 if self.round_began is not None else self.source.unanswered_seconds(now)

    def oldest(self, tranche: Tranche) -> int | None:
        """Return when the oldest event was taken that is read and not done, in microseconds; None: nobody knows."""
        self.follow(tranche)
        return next((page.received for page in self._pages[tranche.name] if page.received is not None), None)
