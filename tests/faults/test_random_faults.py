"""Batches are lost, delayed, doubled and fenced in any order: the log agrees with the reports of their producers."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from penstock.client import (
    AsyncClient,
    AsyncIdempotentProducer,
    Client,
    Event,
    EventBatch,
    IdempotentProducer,
    Resolution,
    RetryPolicy,
)
from penstock.core.producers import MODULUS
from penstock.errors import PenstockError
from penstock.testing.factories import an_event_type
from penstock.wire import http as retry
from tests.databases import Databases
from tests.exhaustive import examples
from tests.faults.either import Kind
from tests.faults.in_process import FAULTS, Box, Fault, Sent, Way, log, publish_plainly

GROUPS = ("one", "other")
MODULI = (8, 16, MODULUS)
COUNT_MAX = 3
"""Fewer than half of the smallest modulus."""
NAMES = itertools.count()
LOOP = asyncio.Runner()
"""The loop of the async producers."""
EXAMPLES = {"sqlite": examples(6, 100), "postgres": examples(3, 40)}
"""The databases differ in little that matters here."""

faults = st.lists(st.sampled_from(FAULTS), max_size=6)
groups = st.sampled_from(GROUPS)
counts = st.integers(1, COUNT_MAX)


class Actor:
    """A producer, and the events and batches that have failed."""

    def __init__(self, model: "Model", group: str) -> None:
        self.way = way = Way(model.box, model)
        self._loop = LOOP if model.kind == "async" else None
        self.doubtful: list[int] = []
        """The ids of unknown outcome before its next call."""
        given: dict[str, Any] = {
            "producer_group": group,
            "retry": RetryPolicy(max_attempts=2, max_delay_seconds=0.001),
            "on_unknown": model.on_unknown,
            "on_resolution": lambda found: model.resolved(self, found),
        }
        self.producer: Any
        if self._loop is None:
            self.producer = IdempotentProducer(Client("http://hub", http=way.client()), model.name, **given)
        else:
            client = AsyncClient("http://hub", http=way.async_client())
            self.producer = AsyncIdempotentProducer(client, model.name, **given)
        self.failed: list[Event | dict[str, int]] = []
        self.batches: list[EventBatch] = []
        self.published: list[tuple[int, int, int]] = []
        """Epoch, number and offset of each event, in the order in which they were reported."""

    def call(self, method: str, *given: Any, **named: Any) -> Any:
        """Call a method of the producer."""
        found = getattr(self.producer, method)(*given, **named)
        return found if self._loop is None else self._loop.run(found)

    def begin(self, faults: list[Fault]) -> None:
        """Set the faults of the next call."""
        self.way.faults = list(faults)
        doubtful = self.producer._partitions.state(0).unresolved
        self.doubtful = [event.data["id"] for event in doubtful.events] if doubtful else []


class Model(RuleBasedStateMachine):
    """Producers of two groups; each may be started again while the old one lives on."""

    on_unknown: Any = "resolve"

    def __init__(self, boxes: Mapping[int, Box], kind: Kind) -> None:
        super().__init__()
        self.boxes = boxes
        self.kind = kind
        self.ids = itertools.count()
        self.stored: dict[int, int] = {}
        """Events that were reported as stored, and where."""
        self.absent: set[int] = set()
        """Events that were reported as not stored, and not handed in again since."""
        self.doubted: set[int] = set()
        """Events that ever had an unknown outcome."""
        self.stuck: list[tuple[Sent, int]] = []
        self.appended = dict.fromkeys(GROUPS, 0)

    @initialize(modulus=st.sampled_from(MODULI))
    def begin(self, modulus: int) -> None:
        self.modulus, self.box = modulus, self.boxes[modulus]
        self.name = f"feed.x{next(NAMES)}"
        answer = self.box.http.post("/event-types", json=an_event_type(self.name))
        assert answer.status_code == 201, answer.text
        self.actors = {group: self.actor(group) for group in GROUPS}
        self.zombies: list[Actor] = []

    # What happens

    @rule(group=groups, count=counts, given=faults)
    def send_events(self, group: str, count: int, given: list[Fault]) -> None:
        self.send(self.actors[group], [self.event() for _ in range(count)], given)

    @rule(group=groups, count=counts, given=faults)
    def send_plain(self, group: str, count: int, given: list[Fault]) -> None:
        self.send(self.actors[group], [{"id": next(self.ids)} for _ in range(count)], given)

    @rule(group=groups, count=counts, given=faults)
    def send_batch(self, group: str, count: int, given: list[Fault]) -> None:
        actor = self.actors[group]
        batch = actor.call("create_batch", 0)
        for _ in range(count):
            assert batch.try_add(self.event())
        self.send(actor, batch, given)

    @rule(group=groups, chance=st.randoms(use_true_random=False), more=st.integers(0, 1), given=faults)
    def send_failed_again(self, group: str, chance: Any, more: int, given: list[Fault]) -> None:
        """In the same sets or in others, and in whichever company."""
        actor = self.actors[group]
        if actor.batches and chance.random() < 0.5:
            self.send(actor, chance.choice(actor.batches), given)
        elif actor.failed:
            again = chance.sample(actor.failed, min(len(actor.failed), chance.randint(1, COUNT_MAX - more)))
            self.send(actor, again + [self.event() for _ in range(more)], given)

    @rule(group=groups, given=faults)
    def resolve(self, group: str, given: list[Fault]) -> None:
        actor = self.actors[group]
        actor.begin(given)
        with suppress(PenstockError):
            actor.call("resolve", 0)
        actor.way.faults = []

    @rule(group=groups)
    def begin_anew(self, group: str) -> None:
        """Start a producer with nothing but the name of the group; the old one lives on."""
        self.zombies.append(self.actors[group])
        self.actors[group] = self.actor(group)

    @rule(at=st.integers(0, 9), count=counts, given=faults)
    def send_as_a_zombie(self, at: int, count: int, given: list[Fault]) -> None:
        if self.zombies:
            zombie = self.zombies[at % len(self.zombies)]
            self.send(zombie, zombie.failed[:COUNT_MAX] or [self.event() for _ in range(count)], given)

    @rule(at=st.integers(0, 9))
    def deliver(self, at: int) -> None:
        if self.stuck:
            sent, _ = self.stuck.pop(at % len(self.stuck))
            self.arrive(sent)

    @rule(count=counts)
    def publish_plainly(self, count: int) -> None:
        publish_plainly(self.box, self.name, [-1] * count)

    @rule()
    def restart_the_hub(self) -> None:
        self.box.end()
        self.box.begin()

    # How it is carried out

    def actor(self, group: str) -> Actor:
        return Actor(self, group)

    def event(self) -> Event:
        return Event({"id": next(self.ids)})

    def stick(self, sent: Sent) -> None:
        self.stuck.append((sent, self.appended[sent.group] if sent.group else 0))

    def deliver_all(self) -> None:
        while self.stuck:
            self.arrive(self.stuck.pop(0)[0])

    def resolved(self, actor: Actor, found: Resolution) -> None:
        """Record an outcome that a producer has found out: it is final."""
        assert found.count == len(actor.doubtful)
        if found.stored:
            offsets = [offset for each in found.offsets for offset in range(each.first, each.last + 1)]
            self.stored.update(zip(actor.doubtful, offsets, strict=True))
        else:
            self.absent.update(actor.doubtful)

    def arrive(self, sent: Sent) -> httpx2.Response:
        """Let a request come to the hub; what is stuck comes before it would be late by half of the numbers."""
        if sent.group is None:
            return sent.arrive()
        count = sent.body.count(b"\n")
        for each in list(self.stuck):
            late, since = each
            if late.group == sent.group and 2 * (self.appended[sent.group] - since + count) >= self.modulus:
                self.stuck.remove(each)
                self.arrived(late)
        return self.arrived(sent)

    def arrived(self, sent: Sent) -> httpx2.Response:
        answer = sent.arrive()
        if sent.group is not None and answer.status_code == 200 and answer.json()["outcome"] == "appended":
            self.appended[sent.group] += sent.body.count(b"\n")
        return answer

    def send(self, actor: Actor, events: Any, given: list[Fault]) -> None:
        actor.begin(given)
        values = list(events.events) if isinstance(events, EventBatch) else list(events)
        ids = [(value.data if isinstance(value, Event) else value)["id"] for value in values]
        try:
            result = actor.call("send", events, partition=0)
        except PenstockError as error:
            self.failed(actor, events, values, ids, error.fields["outcome"])
        else:
            offsets = [offset for each in result.offsets for offset in range(each.first, each.last + 1)]
            assert len(offsets) == len(ids) == result.count
            self.reported(actor, values, ids, offsets)
            if isinstance(events, EventBatch):
                assert events.result == result
        actor.way.faults = []

    def reported(self, actor: Actor, values: list[Any], ids: list[int], offsets: list[int]) -> None:
        for value, number, offset in zip(values, ids, offsets, strict=True):
            self.stored[number] = offset
            self.absent.discard(number)
            if isinstance(value, Event):
                assert value.published_offset == offset
                assert value.published_epoch is not None and value.published_sequence is not None
                actor.published.append((value.published_epoch, value.published_sequence, offset))
        known = set(map(id, values))
        actor.failed = [each for each in actor.failed if id(each) not in known]
        actor.batches = [
            each for each in actor.batches if known.isdisjoint(map(id, each.events)) and each.result is None
        ]

    def failed(self, actor: Actor, events: Any, values: list[Any], ids: list[int], outcome: str) -> None:
        known = set(map(id, actor.failed))
        actor.failed += [each for each in values if id(each) not in known]
        if isinstance(events, EventBatch) and events not in actor.batches:
            assert events.starting_published_sequence is None
            actor.batches.append(events)
        if outcome == "unknown":
            self.absent.difference_update(ids)
            self.doubted.update(ids)
        else:
            assert outcome == "not_stored"
            self.absent.update(ids)

    # What holds

    def teardown(self) -> None:
        if not hasattr(self, "box"):
            return
        self.deliver_all()
        found = log(self.box, self.name)
        numbered = [each for each in found if each >= 0]
        for number, offset in self.stored.items():
            assert found[offset] == number, "what was reported as stored is where it was said to be"
        self.check_counts(numbered)
        for actor in [*self.actors.values(), *self.zombies] if self.modulus == MODULUS else []:
            by_number = sorted(set(actor.published))
            assert [offset for _, _, offset in by_number] == sorted(offset for _, _, offset in by_number)

    def check_counts(self, found: list[int]) -> None:
        assert len(found) == len(set(found)), "nothing is there twice"
        assert self.absent.isdisjoint(found), "what was reported as not stored is not there"


class Republishing(Model):
    """Producers that publish a batch of unknown outcome again: it may be there twice."""

    on_unknown = "republish"

    def check_counts(self, found: list[int]) -> None:
        twice = {number for number in found if found.count(number) > 1}
        assert twice <= self.doubted, "nothing else is there twice"
        assert (self.absent - self.doubted).isdisjoint(found), "what was reported as not stored is not there"


class Boxes(dict[int, Box]):
    """A hub for each modulus that is asked for, on a database of its own."""

    def __init__(self, database: str, url: Callable[[], str]) -> None:
        super().__init__()
        self.database = database
        self._url = url

    def __missing__(self, modulus: int) -> Box:
        self[modulus] = box = Box(self._url(), modulus)
        return box


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def boxes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    def url() -> str:
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('box')}/hub.db"
        databases: Databases = request.getfixturevalue("databases")
        return databases.lend()

    made = Boxes(request.param, url)
    yield made
    for box in made.values():
        box.end()
        if request.param == "postgres":
            request.getfixturevalue("databases").take_back(box.database)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_DELAY_SECONDS", 0.0001)


@pytest.mark.parametrize("model", [Model, Republishing], ids=["resolve", "republish"])
def test_log_agrees_with_the_reports_of_producers_after_any_faults(
    boxes: Boxes, model: type[Model], kind: Kind
) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: model(boxes, kind),
        settings=settings(
            max_examples=EXAMPLES[boxes.database],
            stateful_step_count=25,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
