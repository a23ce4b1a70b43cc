"""How far the streams of a tranche are handled that are ahead of its position.

A position waits for the slowest stream of a batch. Where what the others have done is not to be done twice, it is kept
beside the position, stream by stream, until the position has passed it.
"""

from collections.abc import Collection, Iterator, Mapping

from penstock.processing.engine.item import Item
from penstock.processing.engine.running import Running


class Ahead:
    """The streams of one tranche that are ahead.

    Args:
        kept: What is kept of them: the index wanted next, by stream.
    """

    def __init__(self, kept: Mapping[str, int]) -> None:
        self.unseen: dict[str, int] = dict(kept)
        """Those whose last handled event has not been read since they were kept: until then what comes of them is a
        repeat."""
        self._kept = dict(kept)
        self._reached = dict(kept)
        self._changed: set[str] = set()
        self._last: dict[str, Running] = {}
        """The batch that a stream has come to: it is ahead as long as that is not done."""
        self._streams: dict[Running, set[str]] = {}

    def is_repeat(self, item: Item, running: Running) -> bool:
        """Tell whether an event of an `unseen` stream is handled already; where it is the last one, it is seen now."""
        stream = item.stream
        reached = self.unseen[stream]
        if item.next >= reached:
            del self.unseen[stream]
            self._hold(stream, running)
        return item.next <= reached

    def reach(self, stream: str, index: int, running: Running) -> None:
        """Take note that a stream is handled up to *index*, which lies in a batch that is not done."""
        self._reached[stream] = index
        self._changed.add(stream)
        self._hold(stream, running)

    def pass_over(self, stream: str, index: int) -> None:
        """Take note that nothing of a stream is to be handled below *index*, wherever that lies."""
        if index > self._reached.get(stream, 0):
            self._reached[stream] = self.unseen[stream] = index
            self._last.pop(stream, None)
            self._changed.add(stream)

    def end(self, running: Running) -> None:
        """Take note that the position has passed a batch."""
        for stream in self._ended(running):
            del self._last[stream], self._reached[stream]
            self._changed.add(stream)
        self._streams.pop(running, None)

    def changes(self) -> Mapping[str, int | None]:
        """Return what is to be kept since `kept` was called; None: it is ahead no more."""
        self._changed = {each for each in self._changed if self._reached.get(each) != self._kept.get(each)}
        return {each: self._reached.get(each) for each in self._changed}

    def changes_if(self, reached: Mapping[str, int], ended: Collection[Running]) -> Mapping[str, int | None]:
        """Return the same as it will be once batches have *ended*, and streams have *reached* an index in others."""
        over = {stream: None for running in ended for stream in self._ended(running)}
        return {each: at for each, at in {**self.changes(), **over, **reached}.items() if at != self._kept.get(each)}

    def kept(self, stream: str, index: int | None) -> None:
        """Take note of what is kept of a stream."""
        if index is None:
            self._kept.pop(stream, None)
        else:
            self._kept[stream] = index

    def _ended(self, running: Running) -> Iterator[str]:
        return (each for each in [*self._streams.get(running, ())] if self._last.get(each) is running)

    def _hold(self, stream: str, running: Running) -> None:
        self._last[stream] = running
        self._streams.setdefault(running, set()).add(stream)
