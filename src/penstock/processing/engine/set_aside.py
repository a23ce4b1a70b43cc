"""The streams of an engine that are set aside, and how they come back."""

from penstock.processing.engine.busy import Busy
from penstock.processing.engine.item import Batch, Item
from penstock.processing.engine.outcome import Failure
from penstock.processing.engine.parked import Parked, Parking
from penstock.processing.engine.ready import Ready
from penstock.processing.engine.stream import Stream
from penstock.processing.engine.tranche import Tranche


class SetAside:
    """What an engine has of streams and tranches, and what it does with those that are parked."""

    def __init__(self, *, is_dense: bool) -> None:
        self.is_dense = is_dense
        self.busy = Busy()
        self.parking = Parking(self._ended)
        """The streams that are set aside."""
        self._tranches: dict[str, Tranche] = {}
        self._streams: dict[str, Stream] = {}
        self._ready = Ready()
        self._ends: dict[str, int] = {}
        """Behind what was parked of dense streams and is no more, while there is more of them in other tranches."""

    def known(self) -> set[str]:
        """Return the streams of which something is not done, or remembered: what comes of them has to wait its turn."""
        return {*self._streams, *self.parking.streams}

    def wanted(self, stream: str, tranche: str) -> int:
        """Return which index of a stream is wanted next in a tranche: what is below is handled, or was skipped."""
        found = self._streams.get(stream)
        return found.write if found is not None and found.tranche.name == tranche else 0

    def begun(self, stream: str) -> Item | None:
        """Return what waits of a stream and is done in part, as only what stands for several events can be."""
        found = self._streams.get(stream)
        first = found.queue[0] if found is not None and found.queue else None
        return first if found is not None and first is not None and first.index < found.write else None

    def replays(self) -> list[Parked]:
        """Return what is to be read again of streams that were parked, and are to be tried again."""
        active = self.busy.active  # Who was parked while a call went on, has to wait for its end.
        return [replay for replay in self.parking.replays() if replay.stream not in active]

    def replay(self, replay: Parked, batch: Batch | Failure, now: float) -> None:
        """Take in what was read again, from where *replay* says on; or that it cannot be: it is parked as before."""
        if isinstance(batch, Failure):
            self.parking.fail(replay, batch)
            return
        items = self.parking.taken(replay, batch)
        if not items:
            return
        name = replay.stream
        stream = self._streams[name] = Stream(name, self._tranches[batch.tranche])
        stream.queue, stream.write, stream.end = items, items[0].index, items[-1].next
        stream.is_gapped = True
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

    def _at(self, stream: str, tranche: str) -> Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = Stream(stream, self._tranches[tranche])
            found.call = self.busy.active.get(stream)
        return found

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
        found.move(end)
        found.end = max(found.end, end)
