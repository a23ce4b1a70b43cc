"""A committer, requests that queue behind one that is being committed, and what they store."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from penstock.core.producers import OffsetRange
from penstock.hub.committer import Committer, PublishRequest
from penstock.hub.log.publish import AppendResult
from penstock.storage import Store
from penstock.testing.clock import VirtualClock
from tests.unit.hub.feeds import create_feed, find_feed, make_registry, read_data
from tests.unit.hub.forwarding import ForwardingStore, Gate

GROUP_EVENTS_MAX = 5
Answer = Future[AppendResult | None]


class Log:
    """An event type of one partition, and a committer whose transactions a test can interfere with."""

    def __init__(self, store: Store) -> None:
        self.feed = create_feed(store)
        self.store = store
        self.forwarding = ForwardingStore(store)
        self.clock = VirtualClock()
        self.appended: list[dict[int, int]] = []
        """The next offsets that the watch hears of, transaction by transaction."""
        self.committer = self.make_committer(self.appended.append)

    def make_committer(self, appended: Callable[[dict[int, int]], object]) -> Committer:
        load = make_registry(self.forwarding, self.clock).load
        return Committer(self.forwarding, self.clock, load, appended, group_events_max=GROUP_EVENTS_MAX)

    def submit(self, *requests: PublishRequest) -> list[Answer]:
        return [self.committer.submit(request) for request in requests]

    def queue(
        self, *requests: PublishRequest, at_write: Callable[[int], object] = lambda _number: None
    ) -> list[Answer]:
        """Submit *requests* while another is being committed; *at_write* hears of later transactions, from 1."""
        gate = Gate()

        def interfere(number: int) -> None:
            gate(number)
            if number > 1:
                at_write(number - 1)

        self.forwarding.at_write = interfere
        self.submit(PublishRequest("nobody.s"))
        gate.await_write()
        answers = self.submit(*requests)
        gate.open()
        return answers

    @property
    def writes(self) -> int:
        """How many transactions there were after the first."""
        return self.forwarding.writes - 1

    def lines(self, name: str | None = None) -> list[str]:
        """Return the data of all events."""
        return read_data(self.store, find_feed(self.store, name or self.feed.name).partition_ids[0])

    def letters(self) -> str:
        """Return the letters of all events, see `make_events`."""
        return "".join(line[6] for line in self.lines())


def read_next_offsets(answers: list[Answer]) -> list[Any]:
    return [(published := each.result(300)) and published.next_offsets for each in answers]


def read_ranges(answers: list[Answer]) -> list[list[tuple[int, int]]]:
    """Return where the batches of producers are stored."""
    return [[(first, last) for first, last in _ranges(each)] for each in answers]


def _ranges(answer: Answer) -> list[OffsetRange]:
    published = answer.result(300)
    assert published is not None
    assert published.produced is not None
    return list(published.produced.ranges)
