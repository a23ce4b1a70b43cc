"""What `processing_driver.Calls` has written down in all lives, held against the feed."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from penstock.client import Client
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.engine.tranche import Position
from penstock.processing.sources.feed_position import FeedPosition, encode_tranche

Place: TypeAlias = tuple[str, str]
"""A stream and a tranche, in which its events are in order: a key moves when partitions are added."""


class Call(NamedTuple):
    """A call, as far as it has come."""

    life: int
    """Of the driver, counted from 0."""
    pid: int
    tranche: str
    offsets: list[int]
    done: int | None
    """The offset below which it has handled all; None: it has handled nothing, or was killed."""


class Log(NamedTuple):
    """What is in a feed whose partitions begin at 0, as the hub hands it out."""

    feed: str
    numbers: list[int]
    offsets: Mapping[Place, list[int]]
    """Where its events are."""


class Kept(NamedTuple):
    """What the checkpoints of a processor say."""

    positions: Mapping[str, Position]
    parked: Mapping[Place, int]
    """The first offset that waits there."""
    ahead: Mapping[Place, int] = MappingProxyType({})
    """Below which offset all is done of what was parked and is no more, though the position lies before it."""


class Sample(NamedTuple):
    """How far a processor said that it was, and after that, up to where handlers had done what they were given."""

    kept: Kept
    done: Mapping[Place, int]


def kept_in(checkpoints: Checkpoints) -> Kept:
    """Look what is kept now."""
    positions = checkpoints.positions()  # At first: what is parked no more by then, is handled.
    return Kept(positions, {each.place: each.index for each in checkpoints.parked()})


def begun_with(checkpoints: DatabaseCheckpoints) -> Kept:
    """Look what is kept for a life that is to begin; whoever had it before commits nothing more."""
    kept = kept_in(checkpoints)
    found = checkpoints.take_over(kept.positions.keys(), "whoever looks")
    return kept._replace(
        ahead={(stream, tranche): at for tranche, ahead in found.items() for stream, at in ahead.items()}
    )


def log_of(client: Client, feed: str, key: str) -> Log:
    """Read all of a feed, whose streams are named after a field *key*."""
    reader, heads = client.feed(feed), {each.partition: 0 for each in client.partitions(feed)}
    cursors, events = reader.cursors(), []
    while (page := reader.read(cursors)).events:
        events += page.events
        cursors = dict(page.cursors)
    offsets: dict[Place, list[int]] = {}
    for event in events:
        place = f"{feed}-{event.data[key]}", encode_tranche(feed, event.partition)
        offsets.setdefault(place, []).append(heads[event.partition])
        heads[event.partition] += 1
    return Log(feed, [event.data["n"] for event in events], offsets)


class Journal:
    """The calls of a folder, a file for each stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def lines(self) -> dict[str, list[dict[str, object]]]:
        """Return what was written, by stream, in its order; a line that is just being written is none yet."""
        texts = {path.name: path.read_text() for path in self.folder.iterdir()}
        return {name: [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
                for name, text in texts.items()}  # fmt: skip

    def calls(self) -> dict[str, list[Call]]:
        """Return the calls of each stream, in the order in which they began.

        Raises:
            AssertionError: two of one stream have gone on at once.
        """
        found: dict[str, list[Call]] = {}
        for stream, lines in self.lines().items():
            runs = [list(run) for _, run in groupby(lines, key=lambda line: line["call"])]
            names = [run[0]["call"] for run in runs]
            assert len(names) == len(set(names)), f"two calls at once for {stream}: {names}"
            found[stream] = [_call(run) for run in runs]
        return found

    def has_begun(self, life: int) -> bool:
        """Tell whether a life of the driver has called anything."""
        return any(line["life"] == life for lines in self.lines().values() for line in lines)

    def done(self) -> dict[Place, int]:
        """Return below which offset handlers have done each stream."""
        found: dict[Place, int] = {}
        for stream, lines in self.lines().items():
            for line in (line for line in lines if "done" in line):
                place = stream, str(line["tranche"])
                found[place] = max(found.get(place, 0), line["done"])  # type: ignore[call-overload]
        return found


def _call(run: Sequence[Mapping[str, object]]) -> Call:
    first, last = run[0], run[-1]
    return Call(first["life"], first["pid"], first["tranche"], first["offsets"], last.get("done"))  # type: ignore[arg-type]


def check_order(calls: Mapping[str, Sequence[Call]], log: Log, beginnings: Sequence[Kept], *, is_rerun: bool) -> None:
    """Check that each life has handed out each stream from its checkpoint on, without a hole, and all of it in the end.

    Args:
        calls: By stream.
        log: What there is.
        beginnings: By life: the checkpoints that it has begun with.
        is_rerun: Whether Spark may carry out tasks of a round again: then its last call may come again.
    """
    for place, offsets in log.offsets.items():
        (stream, tranche), reached = place, 0
        for life, kept in enumerate(beginnings):
            done = max(_offset(kept.positions, tranche), kept.ahead.get(place, 0))
            wanted = last = _after(offsets, kept.parked.get(place, done))
            for call in (call for call in calls.get(stream, ()) if (call.life, call.tranche) == (life, tranche)):
                begun = offsets.index(call.offsets[0])
                assert begun == wanted or (is_rerun and begun == last), (
                    f"{stream} in life {life}: {call.offsets} where {offsets[wanted : wanted + 3]} came next"
                )
                assert call.offsets == offsets[begun : begun + len(call.offsets)], f"{stream}: a hole in {call.offsets}"
                last, wanted = begun, begun if call.done is None else _after(offsets, call.done)
                reached = max(reached, 0 if call.done is None else call.done)
        assert reached == offsets[-1] + 1, f"{stream} is handled below {reached}, and has {offsets[-3:]}"


def check_checkpoints(samples: Sequence[Sample], log: Log) -> None:
    """Check that positions have never gone back, and have never passed what was neither handled nor parked."""
    before: dict[str, int] = {}
    for sample in samples:
        positions, parked = sample.kept.positions, sample.kept.parked
        now = {tranche: _offset(positions, tranche) for tranche in positions}
        assert all(now[tranche] >= at for tranche, at in before.items()), f"from {before} back to {now}"
        before = now
        for place, offsets in log.offsets.items():
            end = now.get(place[1], 0)
            behind = [offset for offset in offsets if offset < min(end, parked.get(place, end))]
            if behind:
                done = sample.done.get(place, 0)
                assert done > behind[-1], f"{place} is handled below {done}, and its checkpoint is {now}"


def _offset(positions: Mapping[str, Position], tranche: str) -> int:
    return FeedPosition.decode(str(positions[tranche])).offset if tranche in positions else 0


def _after(offsets: Sequence[int], at: int) -> int:
    """Return the number of the first event at *at* or behind it."""
    return sum(offset < at for offset in offsets)
