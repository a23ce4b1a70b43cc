"""Streams of two hubs come, go, read and commit at random: the invariants of a subscription hold after every step."""

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.errors import CommitRefused, StreamNotFound, SubscriptionBusy
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from tests.by_hand import NAME, Play, Scene
from tests.exhaustive import seeds

LINE = re.compile(r"(\d+):-?\d+\[([\d, ]*)\]")
STEPS = 60


class Model:
    """Does something to a subscription at random, and checks its invariants."""

    def __init__(self, scenes: list[Scene], random: Random, partitions: int) -> None:
        self.scenes = scenes
        self.random = random
        self.published = [0] * partitions
        self.sent: set[tuple[int, int]] = set()
        self.plays: list[Play] = []
        self.wanted: dict[Play, dict[int, int]] = defaultdict(dict)
        """The next number, by stream and partition."""
        self.owners: dict[int, str | None] = {}

    @property
    def live(self) -> list[Play]:
        return [each for each in self.plays if not each.stream.is_over]

    def offset(self, partition: int) -> int:
        return self.scenes[0].offsets()[NAME, partition]

    def step(self) -> None:
        """Do something, and look at everything."""
        for each in self.scenes:
            each.hear()
        doing = self.random.choices([self.open, self.put, self.take, self.commit, self.leave, self.extend], ODDS)[0]
        with contextlib.suppress(SubscriptionBusy):
            doing()
        self.look()

    def open(self) -> None:
        choice, count = self.random.choice, len(self.published)
        wants = self.random.sample(range(count), self.random.randint(1, count)) if self.random.random() < 0.3 else []
        play = Play(
            choice(self.scenes),
            *wants,
            commit_timeout=choice([2, 5]),
            batch_limit=choice([1, 3]),
            max_uncommitted_events=choice([1, 4, 10]),
            batch_flush_timeout=choice([1, 3]),
            stream_limit=choice([0, 0, 5]),
            stream_timeout=choice([0, 7]),
        )
        self.plays.append(play)
        self.see(play, play.take())

    def put(self) -> None:
        partition, count = self.random.randrange(len(self.published)), self.random.randint(1, 4)
        start = self.published[partition]
        self.random.choice(self.scenes).put(*range(start, start + count), partition=partition)
        self.published[partition] += count

    def take(self) -> None:
        if self.live:
            play = self.random.choice(self.live)
            self.see(play, play.take(self.random.choice([0, 0, 0.5, 1, 2, 3])))

    def commit(self) -> None:
        """Commit an event that a stream was sent, which may have ended, or lost its partition."""
        play = self.random.choice(self.plays) if self.plays else None
        if play is None or not self.wanted[play]:
            return
        partition = self.random.choice(sorted(self.wanted[play]))
        number = max(0, self.wanted[play][partition] - 1 - self.random.choice([0, 0, 0, 1]))
        before, is_live = self.offset(partition), not play.stream.is_over
        try:
            moved = play.commit(number, partition)
        except StreamNotFound:
            assert not is_live, "a stream that is sent may commit"
        except CommitRefused:
            assert self.owner(partition) != play.id, "what is its own and was sent may be committed"
        else:
            assert self.offset(partition) == max(before, number + 1)
            assert moved == (number + 1 > before)

    def leave(self) -> None:
        if self.live:
            self.random.choice(self.live).leave()

    def extend(self) -> None:
        if self.live:
            play = self.random.choice(self.live)
            play.scene.hub.subscriptions.streams.extend(play.scene.id, play.id)

    def owner(self, partition: int) -> str | None:
        return {slot.place[1]: slot.owner for slot in self.scenes[0].look().slots}[partition]

    def see(self, play: Play, lines: list[str]) -> None:
        """Check that a stream was sent events of its own partitions, in order, from the committed offset on."""
        for line in lines:
            found = LINE.match(line)
            assert found is not None
            partition, numbers = int(found[1]), [int(each) for each in found[2].split(",") if each]
            if not numbers:
                continue
            assert play.stream.is_over or self.owner(partition) == play.id, "nobody is sent what is another's"
            start = max(self.wanted[play].get(partition, 0), self.offset(partition))  # It may have got it back.
            assert numbers[0] == start, "nothing that was committed comes again, and nothing is left out"
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            self.wanted[play][partition] = numbers[-1] + 1
            self.sent |= {(partition, each) for each in numbers}

    def look(self) -> None:
        """Check that each partition has the owner that it should have."""
        look = self.scenes[0].look()
        known = {each.id: each for each in look.sessions}
        assert {slot.owner for slot in look.slots} | {slot.successor for slot in look.slots} <= {*known, None}
        assert {each.id for each in known.values() if each.holds_until is None} == {each.id for each in self.live}
        live = {each.id: each for each in self.live}
        for (_, partition), owner, offset in ((slot.place, slot.owner, slot.offset) for slot in look.slots):
            before = live.get(self.owners.get(partition) or "")
            if before is not None and before.id != owner:
                assert self.wanted[before].get(partition, 0) <= offset, "what a stream has, it commits before it goes"
            self.owners[partition] = owner
        asked = [place for each in known.values() if each.holds_until is None for place in each.wants]
        assert len(asked) == len(set(asked)), "nobody has asked for what another one asked for"
        if any(not each.wants for each in known.values() if each.holds_until is None):
            assert all(slot.owner for slot in look.slots), "what is free is shared out"

    def finish(self) -> None:
        """End all streams, read the rest, and check that each event was sent."""
        for play in self.live:
            play.leave()
        scene = self.scenes[0]
        scene.hub.subscriptions.resets.begin(scene.id, {})
        offsets = scene.offsets()
        scene.hub.subscriptions.resets.begin(scene.id, offsets)
        assert scene.hub.subscriptions.resets.finish(scene.id, offsets)
        last = Play(scene, batch_limit=5, max_uncommitted_events=100, batch_flush_timeout=1)
        self.plays.append(last)
        while [self.offset(each) for each in range(len(self.published))] != self.published:
            self.see(last, last.take(1))
            for partition, wanted in self.wanted[last].items():
                if wanted > self.offset(partition):
                    last.commit(wanted - 1, partition)
        assert self.sent == {(p, each) for p, count in enumerate(self.published) for each in range(count)}


ODDS = [4, 4, 6, 4, 1, 1]


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[list[Scene]]:
    """Two hubs on one database, neither of which does anything by itself."""
    path, clock = tmp_path / "hub.db", VirtualClock()
    found = []
    for _ in range(2):
        store = open_store(f"sqlite:///{path}")
        store.migrate()
        found.append(Scene(Hub(store, clock=clock), clock, path))
    yield found
    for each in found:
        each.hub.stop()


@pytest.mark.parametrize("seed", seeds(5, 25))
def test_streams_of_two_hubs_lose_no_event_and_share_none(scenes: list[Scene], seed: int) -> None:
    """Each event is sent at least once, in order, to one stream at a time, and not after its commit."""
    random = Random(seed)
    partitions = random.choice([1, 2, 4])
    scenes[1].id = scenes[0].subscribe(partitions).id
    model = Model(scenes, random, partitions)
    for _ in range(STEPS):
        model.step()
    model.finish()
