"""A source that does what sources may do, and tests seldom see."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from random import Random

from penstock.errors import Unavailable
from penstock.processing.engine.tranche import Batch, Position, SourceItem
from penstock.processing.parameters import check_whole
from penstock.processing.sources.source import ReadRequest, Source, check_source
from penstock.testing.processing.times import Times, check_times, never


class FaultySource:
    """Reads from a source, and fails, repeats or mixes what has come as often as it is to.

    A processor has to end with the same, whichever of these happens.

    Args:
        source: Where events come from.
        fails: Which reads fail in a way that passes, of all, counted from 1; nothing is read then.
        repeats: Which reads bring events once more: those of the batch itself, and where the indices of streams follow
            each other without gaps, those of the batch before as well.
        mixes: Which reads bring the streams of a batch in another order, each with its own kept; if the source can be
            read again, also of two batches at once.
        seed: Of the order; the same seed gives the same.

    Raises:
        BadParameter: one of them is none of these.
        Unavailable: (`read`) it is one that is to fail.
    """

    def __init__(
        self, source: Source, *, fails: Times = never, repeats: Times = never, mixes: Times = never, seed: int = 0
    ) -> None:
        check_source(source)
        for name, times in (("fails", fails), ("repeats", repeats), ("mixes", mixes)):
            check_times(name, times)
        check_whole("seed", seed)
        self.failures = 0
        """How many reads have failed by this."""
        self.inner = source
        self._fails = fails
        self._repeats = repeats
        self._mixes = mixes
        self._chance = Random(seed)  # noqa: S311 - It is to be the same again.
        self._reads = 0
        self._before: dict[str, Sequence[SourceItem]] = {}

    @property
    def is_dense(self) -> bool:
        """Return whether the indices of a stream follow each other without gaps."""
        return self.inner.is_dense

    @property
    def is_by_stream(self) -> bool:
        """Return whether each stream has indices of its own, as in the source."""
        return self.inner.is_by_stream

    @property
    def is_replayable(self) -> bool:
        """Return whether events can be read again."""
        return self.inner.is_replayable

    def tranches(self) -> Collection[str]:
        """Return the tranches that there are now."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where a processor begins that has no position in a tranche."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what follows, or raise."""
        self._reads += 1
        number = self._reads
        if self._fails(number):
            self.failures += 1
            raise Unavailable(reason="a fault was injected into a read")
        found = _join(self.inner.read(wants, timeout))
        if self._mixes(number):
            found = [self._mix(batch, wants[batch.tranche]) for batch in found]
            self._chance.shuffle(found)
        given = [self._repeat(batch) if self._repeats(number) else batch for batch in found]
        self._before |= {batch.tranche: batch.items for batch in found}
        return given

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a tranche has from an earlier position on."""
        return self.inner.reread(tranche, want)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now."""
        return self.inner.behind(positions)

    def close(self) -> None:
        """End; who is reading is woken."""
        self.inner.close()

    def _mix(self, batch: Batch, want: ReadRequest) -> Batch:
        room = want.events_max - len(batch.items)
        if self.is_replayable and not batch.is_tail and room > 0:
            following = self.inner.reread(batch.tranche, ReadRequest(batch.end, room))
            batch = following._replace(items=[*batch.items, *following.items])
        streams: dict[str, list[SourceItem]] = {}
        for item in batch.items:
            streams.setdefault(item.stream, []).append(item)
        turns = [name for name, items in streams.items() for _ in items]
        self._chance.shuffle(turns)
        queues = {name: iter(items) for name, items in streams.items()}
        return batch._replace(items=[next(queues[name]) for name in turns])

    def _repeat(self, batch: Batch) -> Batch:
        before = self._before.get(batch.tranche, ()) if self.is_dense else ()
        again = [item for item in batch.items if self._chance.random() < 0.5] or batch.items
        return batch._replace(items=[*chain(before, batch.items, again)])


def _join(batches: Iterable[Batch]) -> list[Batch]:
    """Return batches whole, of which parts were read."""
    found: dict[str, Batch] = {}
    for batch in batches:
        before = found.get(batch.tranche)
        found[batch.tranche] = batch if before is None else batch._replace(items=[*before.items, *batch.items])
    return [*found.values()]
