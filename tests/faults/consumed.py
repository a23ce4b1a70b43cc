"""The logs of consumers, and checks of them: no event is lost, skipped, sent again or out of order."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

LEFTOVER_SECONDS: Final = 0.5
"""So long after a hub goes on that stood still, it may hand out what it had begun to send."""


class Batch(NamedTuple):
    """A batch as a consumer has read it."""

    at: float
    stream: str
    partition: str
    first: int
    last: int


class Commit(NamedTuple):
    """A cursor that a hub was asked to commit, or has said is committed."""

    at: float
    stream: str
    partition: str
    offset: int


class Story(NamedTuple):
    """The logs of all consumers, merged in the order of time."""

    batches: Sequence[Batch]
    asked: Sequence[Commit]
    """What consumers have asked to be committed, and were not refused: of some they never heard what became of it."""
    commits: Sequence[Commit]
    """What hubs have said is committed."""
    counts: Mapping[str, int]
    hubs: Mapping[str, str]
    """By stream, the hub that has sent it."""

    def without_leftovers(self, resumed: Sequence[tuple[str, float]]) -> "Story":
        """Leave out what came from hubs just after they had stood still: it was on its way already.

        Nobody can call back what a process has handed to the network. That it is not committed is the database's work.
        """

        def is_left(batch: Batch) -> bool:
            hub = self.hubs.get(batch.stream)
            return any(hub == each and at <= batch.at < at + LEFTOVER_SECONDS for each, at in resumed)

        return self._replace(batches=[each for each in self.batches if not is_left(each)])

    @property
    def partitions(self) -> Iterable[str]:
        """Those of which anything was read."""
        return sorted({batch.partition for batch in self.batches})


def story_of(logs: Iterable[Path]) -> Story:
    """Merge logs; the last line of a consumer that was killed may be half a line."""
    batches, commits = [], []
    asked: dict[tuple[str, str, int], Commit] = {}
    counts: dict[str, int] = defaultdict(int)
    hubs: dict[str, str] = {}
    for line in (line for log in logs for line in log.read_text().splitlines()):
        try:
            note: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        counts[note["what"]] += 1
        if note["what"] == "opened":
            hubs[note["stream"]] = note["hub"]
        if note["what"] == "batch":
            batches.append(Batch(note["at"], note["stream"], note["partition"], note["first"], note["last"]))
        if note["what"] == "asked":
            asked |= {(note["stream"], *each): Commit(note["at"], note["stream"], *each) for each in note["offsets"]}
        if note["what"] == "refused_commit":
            for each in note["offsets"]:
                del asked[note["stream"], *each]
        if note["what"] == "committed":
            commits += [Commit(note["at"], note["stream"], *each) for each in note["offsets"]]
    return Story(sorted(batches), sorted(asked.values()), sorted(commits), counts, hubs)


def lost_offsets(story: Story, heads: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
    """Return, by partition, the first offsets below its head that nobody has read and then asked to be committed."""
    done: dict[tuple[str, str], int] = {}
    for each in story.asked:
        done[each.stream, each.partition] = max(each.offset, done.get((each.stream, each.partition), -1))
    found = {}
    for partition, head in heads.items():
        handled = set[int]()
        for batch in (each for each in story.batches if each.partition == partition):
            handled.update(range(batch.first, min(batch.last, done.get((batch.stream, partition), -1)) + 1))
        if missing := sorted(set(range(head)) - handled)[:10]:
            found[partition] = missing
    return found


def skipping_batches(story: Story) -> Sequence[tuple[int, Batch]]:
    """Return batches that neither follow the last one of their stream nor begin at a position that was committed.

    With each comes the offset at which it could have begun at the latest: a hub sends on behind the last commit, and
    a position is committed only if a consumer has asked for it.
    """
    found = []
    for partition in story.partitions:
        asked = [each for each in story.asked if each.partition == partition]
        at, highest = 0, -1
        last: dict[str, int] = {}
        for batch in (each for each in story.batches if each.partition == partition):
            while at < len(asked) and asked[at].at < batch.at:
                highest = max(highest, asked[at].offset)
                at += 1
            latest = max(highest, last.get(batch.stream, -1)) + 1
            if batch.first > latest:
                found.append((latest, batch))
            last[batch.stream] = batch.last
    return found


def repeated_batches(story: Story) -> Sequence[tuple[Commit, Batch]]:
    """Return batches that were read after a hub had confirmed a commit of their events, each with that commit."""
    found = []
    for partition in story.partitions:
        commits = [each for each in story.commits if each.partition == partition]
        at, highest = 0, Commit(0.0, "", partition, -1)
        for batch in (each for each in story.batches if each.partition == partition):
            while at < len(commits) and commits[at].at < batch.at:
                highest = max(highest, commits[at], key=lambda each: each.offset)
                at += 1
            if batch.first <= highest.offset:
                found.append((highest, batch))
    return found


def unordered_batches(story: Story) -> Sequence[tuple[Batch, Batch]]:
    """Return neighbours of one stream and partition of which the later one does not come after the earlier."""
    last: dict[tuple[str, str], Batch] = {}
    found = []
    for batch in story.batches:
        before = last.get((batch.stream, batch.partition))
        if before is not None and batch.first <= before.last:
            found.append((before, batch))
        last[batch.stream, batch.partition] = batch
    return found


def overlapping_batches(story: Story) -> Sequence[tuple[Batch, Batch]]:
    """Return batches of a stream that another one had been sent again from it, and was still sent on itself.

    A stream that has lost a partition without having committed all of it has ended: it is sent no more of it. Two that
    are sent one partition at a time show themselves by this: each begins behind what is committed, so that both are
    sent the same events as soon as either has one that is not.
    """
    found = []
    for partition in story.partitions:
        taken_from: dict[str, Batch] = {}
        seen: dict[int, str] = {}
        for batch in (each for each in story.batches if each.partition == partition):
            if batch.stream in taken_from:
                found.append((taken_from[batch.stream], batch))
            for offset in range(batch.first, batch.last + 1):
                before = seen.get(offset)
                if before is not None and before != batch.stream:
                    taken_from.setdefault(before, batch)
                seen[offset] = batch.stream
    return found
