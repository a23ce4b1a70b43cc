"""A model of a hub with one subscription, and random faults between it and a consumer."""

from random import Random
from typing import Any

from penstock.client.subscriptions.consumer_state import (
    CommitBatches,
    ConsumerState,
    EndStream,
    ExtendLease,
    Finished,
    ReleaseStream,
    Wait,
)
from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.errors import CommitRefused, ConnectionLost, StreamNotFound
from tests.unit.client.batches import batch

LOST = ConnectionLost(url="u", reason="reset")


class ConsumedHub:
    """A hub, and the consumer whose streams and handlers are played here. One step of anything is a `turn`."""

    def __init__(self, seed: int, partitions: int = 3, events: int = 30) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.consuming = ConsumerState(
            commit_timeout=60.0, grace_seconds=10.0, retry_timeout=5.0, delay_seconds_max=1.0, clock=lambda: self.now
        )
        self.events = events
        self.committed = dict.fromkeys(range(partitions), 0)
        self.owner: dict[int, str | None] = dict.fromkeys(range(partitions))
        self.sent: dict[tuple[str, int], int] = {}
        self.known: set[str] = set()
        self.gone: set[str] = set()
        """The streams that the consumer knows to be gone."""
        self.live: str | None = None
        self.opened = 0
        self.running: list[SubscriptionBatch[Any]] = []
        self.handled: dict[int, set[int]] = {number: set() for number in self.committed}
        self.is_calm = False
        """Set to end the faults."""

    @property
    def is_all_committed(self) -> bool:
        return set(self.committed.values()) == {self.events}

    def turn(self) -> None:
        """Make one random step of the hub or a handler, then all steps of the consumer."""
        happens = [self.send, self.send, self.begin_handler, self.begin_handler, self.end_handler, self.end_handler]
        if not self.is_calm:
            happens += [self.fail_handler, self.lose, self.expire]
        self.random.choice(happens)()
        self.now += self.random.random()
        if self.live is None and not self.consuming.is_stopping:
            self.open()
        self.act()

    # The hub

    def open(self) -> None:
        self.opened += 1
        self.live = f"s{self.opened}"
        self.known.add(self.live)
        self.consuming.begin_stream(self.live)

    def share_out(self) -> None:
        for partition, owner in self.owner.items():
            if owner is None and self.live is not None:
                self.owner[partition] = self.live
                self.sent[self.live, partition] = self.committed[partition]

    def send(self) -> None:
        self.share_out()
        own = [partition for partition, owner in self.owner.items() if owner == self.live and self.live]
        if own and self.live:
            partition = self.random.choice(own)
            start = self.sent[self.live, partition]
            count = min(self.random.randint(1, 4), self.events - start)
            if count > 0:
                self.sent[self.live, partition] = start + count
                if self.is_calm or self.random.random() < 0.9:
                    self.consuming.add_batch(batch(self.live, partition, start + count - 1, count))
                else:  # It was sent, but never read.
                    self.lose()

    def lose(self) -> None:
        if self.live is not None:
            stream, self.live = self.live, None
            self.consuming.end_stream(stream)
            self.settle(stream)

    def settle(self, stream: str) -> None:
        """Release the partitions of a stream that has ended and committed them."""
        for partition, owner in self.owner.items():
            if owner == stream != self.live and self.sent[stream, partition] <= self.committed[partition]:
                self.owner[partition] = None

    def expire(self) -> None:
        """End the time in which streams that have ended may commit."""
        for partition, owner in self.owner.items():
            if owner != self.live:
                self.owner[partition] = None
        self.known &= {self.live or ""}

    # The handlers

    def begin_handler(self) -> None:
        if len(self.running) < 2 and (found := self.consuming.next()) is not None:
            assert found.partition not in [each.partition for each in self.running]
            self.running.append(found)

    def end_handler(self) -> None:
        if self.running:
            done = self.running.pop(self.random.randrange(len(self.running)))
            self.handled[done.partition] |= {event.data["n"] for event in done.events}
            self.consuming.finish_batch(done)

    def fail_handler(self) -> None:
        if self.running:
            self.consuming.fail_batch(self.running.pop())

    # What the consumer does

    def act(self) -> None:
        while not isinstance(step := self.consuming.next_step(), Wait | Finished):
            if isinstance(step, EndStream):
                assert step.stream_id == self.live
                self.lose()
                continue
            assert isinstance(step, CommitBatches | ExtendLease | ReleaseStream)
            trouble = "" if self.is_calm else self.random.choice(["before", "after", "", "", ""])
            try:
                if trouble != "before":
                    self.take(step)
                if trouble:
                    raise LOST
            except (StreamNotFound, CommitRefused, ConnectionLost) as error:
                self.consuming.fail_step(step, error)
            else:
                self.consuming.complete_step(step)

    def take(self, step: CommitBatches | ExtendLease | ReleaseStream) -> None:
        stream = step.stream_id
        assert stream not in self.gone, "nothing is asked again for a stream that is gone"
        if stream not in self.known:
            self.gone.add(stream)
            raise StreamNotFound(stream=stream)
        if isinstance(step, CommitBatches):
            self.commit(stream, [(each.partition, int(each.offset[-18:]) + 1) for each in step.batches])
        elif isinstance(step, ReleaseStream):
            assert stream != self.live, "a stream is ended before it is given back"
            for partition, owner in self.owner.items():
                if owner == stream and ("a.b", partition) not in step.keep:
                    self.owner[partition] = None
            if not step.keep:
                self.known.discard(stream)

    def commit(self, stream: str, cursors: list[tuple[int, int]]) -> None:
        for partition, _ in cursors:
            if self.owner[partition] != stream:
                raise CommitRefused(event_type="a.b", partition=str(partition), offset=0, reason="of another")
        for partition, position in cursors:
            assert self.handled[partition] >= set(range(position)), "what is committed was handled"
            self.committed[partition] = max(self.committed[partition], position)
        self.settle(stream)
