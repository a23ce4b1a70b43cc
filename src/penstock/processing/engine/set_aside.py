"""The streams of an engine that are set aside, and how they come back."""

from collections import defaultdict
from collections.abc import Sequence

from penstock.processing.engine.busy import Busy
from penstock.processing.engine.item import Batch, Item
from penstock.processing.engine.outcome import Failure
from penstock.processing.engine.parked import Parked, Parking
from penstock.processing.engine.ready import Ready
from penstock.processing.engine.required import Required
from penstock.processing.engine.stream import Stream
from penstock.processing.engine.tranche import Tranche


class SetAside:
    """What an engine has of streams and tranches, and what it does with those that are parked."""

    def __init__(self, *, is_dense: bool, requires_all: bool) -> None:
        self.is_dense = is_dense
        self._requires_all = requires_all
        self.busy = Busy()
        self.parking = Required(self._ended) if requires_all else Parking(self._ended)
        """The streams that are set aside."""
        self._tranches: dict[str, Tranche] = {}
        self._streams: dict[str, Stream] = {}
        self._ready = Ready()
        self._ends: dict[str, int] = {}
        """Behind what was parked of dense streams and is no more, while there is more of them in other tranches."""

    def known(self) -> set[str]:
        """Return the streams of which something is not done, or remembered: what comes of them has to wait its turn."""
        known = {*self._streams, *self.parking.streams}
        return known.union(*(tranche.unseen for tranche in self._tranches.values()))

    def wanted(self, stream: str, tranche: str) -> int:
        """Return which index of a stream is wanted next in a tranche: what is below is handled, or was skipped."""
        found, passed = self._streams.get(stream), self._tranches[tranche].unseen.get(stream, 0)
        return max(found.write, passed) if found is not None and found.tranche.name == tranche else passed

    def begun(self, stream: str) -> Item | None:
        """Return what waits of a stream and is done in part, as only what stands for several events can be."""
        found = self._streams.get(stream)
        first = found.queue[0] if found is not None and found.queue else None
        return first if found is not None and first is not None and first.index < found.write else None

    def replays(self) -> list[Parked]:
        """Return what is to be read again of streams that were parked, and are to be tried again."""
        return [replay for replay in self.parking.replays() if self._is_in_want(replay.stream)]

    def replaying(self, tranche: str) -> int:
        """Return how many events of a tranche are held that were read again."""
        retried = (self._streams.get(stream) for stream in self.parking.retried)
        return sum(stream.held for stream in retried if stream is not None and stream.tranche.name == tranche)

    def replay_all(self, replays: Sequence[Parked], page: Batch | Failure, now: float) -> None:
        """Take in a page that was read again for several streams, from where all of *replays* say on; or why not."""
        if isinstance(page, Failure):
            for replay in replays:
                self.replay(replay, page, now)
            return
        items: defaultdict[str, list[Item]] = defaultdict(list)
        for item in page.items:
            items[item.stream].append(item)
        for replay in replays:
            self.replay(replay, page._replace(items=items[replay.stream]), now)

    def replay(self, replay: Parked, batch: Batch | Failure, now: float) -> None:
        """Take in what was read again of one stream, from where *replay* says on; or why it cannot be read."""
        if isinstance(batch, Failure):  # It is parked as before.
            self.parking.fail(replay, batch)
            return
        name = replay.stream
        stream = self._streams.get(name)
        is_elsewhere = stream is not None and not self.is_dense and stream.tranche.name != batch.tranche
        if is_elsewhere and stream is not None and not stream.is_idle:
            return  # It has had events since that was asked for: they are done before, and the page is read again.
        items = self.parking.taken(replay, batch)
        if not items:
            return
        tranche = self._tranches[batch.tranche]
        if stream is None or is_elsewhere:
            stream = self._streams[name] = Stream(name, tranche)
            stream.call = self.busy.active.get(name)  # One that was given up may still go on.
            stream.write = self.parking.beginning(name, items)
        elif stream.is_idle:
            stream.tranche = tranche
        stream.take_again(items)
        if stream.is_idle:  # It was to go on behind all of them.
            self._has_caught_up(stream)
        elif stream.call is None and not stream.is_listed and not self._is_in_want(name):
            self._ready.add(stream)
        self._ready.wake(now)

    def retry(self, stream: str) -> None:
        """Have a stream tried again, if it is parked: see `replays`."""
        self.parking.retry(stream)

    def drop(self, stream: str) -> None:
        """Forget what is parked of a stream: nobody handles it any more, only what comes from now on."""
        found = self._streams.get(stream)
        if found is not None and not found.wants:
            found.move(found.end)
            self.busy.forget(stream)
            if found.call is None:
                del self._streams[stream]
        self.parking.drop(stream)

    def _is_in_want(self, stream: str) -> bool:
        """Tell whether nothing is held of a stream that could be handed out now, or be with a handler."""
        if stream in self.busy.active:  # Who was parked while a call went on, has to wait for its end.
            return False
        found = self._streams.get(stream)
        if found is None or found.is_idle:
            return True
        # Else what is held is to be done before; where all is required, that may wait for what is to be read again.
        return self._requires_all and bool(found.queue) and found.queue[0].index > found.write

    def _at(self, stream: str, tranche: str) -> Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = Stream(stream, self._tranches[tranche])
            found.call = self.busy.active.get(stream)
        return found

    def _has_caught_up(self, stream: Stream) -> bool:
        """Take note that what was read again of a stream is done; tell whether it is as all others are from now on."""
        name, tranche = stream.name, stream.tranche.name
        if not self.is_dense:  # More of it may have come than was read again.
            stream.end = max(stream.end, self.parking.streams[name][tranche].next)
        del self._streams[name]
        self.parking.page_done(name, tranche)
        if not self.is_dense and name not in self.parking.streams:
            self._streams[name] = stream  # It may skip what has not come yet.
        return name in self._streams

    def _unload(self, tranche: str) -> None:
        """Let go of what is parked of a tranche that is given up."""
        self.parking.unload(tranche)
        self._ends = {stream: end for stream, end in self._ends.items() if stream in self.parking.streams}

    def _ended(self, parked: Parked) -> None:
        """Have nothing come again of what was parked, though its tranche's position may lie before it."""
        tranche = self._tranches.get(parked.tranche)
        if tranche is None:
            return
        tranche.pass_over(parked.stream, parked.next)
        if self.is_dense:
            self._go_on_behind(parked)

    def _go_on_behind(self, parked: Parked) -> None:
        """Have a stream go on behind what was parked of it, once nothing is: what is missing there is seen by that."""
        name = parked.stream
        end = max(parked.index, parked.next, self._ends.pop(name, 0))
        if name in self.parking.streams:
            self._ends[name] = end
            return
        found = self._at(name, parked.tranche)
        if not found.wants:  # Else it goes on with what it has, since others had parked that.
            found.move(end)
            found.end = max(found.end, end)
