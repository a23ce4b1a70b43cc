"""Effects of a reaction have the same id each time they are published, and are stored once with a producer group."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import BadParameter, PenstockError
from penstock.processing import FeedSource, InlineProcessor, Rules, StreamEvent, react
from penstock.processing.duplicates import Duplicates
from penstock.processing.effects import Effect, Effects, effect_id
from penstock.processing.reactions import Publisher
from penstock.processing.sources import MemorySource
from penstock.processing.targets import hub as origins
from penstock.testing.factories import a_business_event
from penstock.testing.live_hub import LiveHub
from tests.faults.proxy import Asked, Line, Visit, unanswered
from tests.processing.reading import read_feed


@pytest.fixture
def hub(emptied_hub: LiveHub) -> LiveHub:
    return emptied_hub


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        for name in ("order.placed", "payment.taken"):
            client.create_event_type(name, category="business", partition_count=2)
        client.create_event_type("mail.sent", partition_count=2)
        yield client


def take_payment(event: StreamEvent) -> list[Effect]:
    order = event.data["n"]
    return [
        Effect("payment.taken", {"order": order}),
        Effect("mail.sent", {"order": order, "to": "buyer"}, "to buyer"),
        Effect("mail.sent", {"order": order, "to": "seller"}, "to seller"),
    ]


def read_published(client: Client, name: str) -> list[Any]:
    return read_feed(client, name, "_all")


def react_to(
    client: Client, publisher: Publisher, events: int = 20, effects: Effects = take_payment
) -> InlineProcessor:
    source = MemorySource()
    for number in range(events):
        source.append(f"order-{number % 5}", [{"n": number}])
    processor = InlineProcessor(react(publisher, effects), source, rules=Rules(events_per_call=3))
    processor.drain(advance=True)
    return processor


def is_publish(visit: Visit | Asked) -> bool:
    return visit.method == "POST" and (visit.path.endswith("/events") or visit.path.startswith("/feeds/"))


@pytest.mark.parametrize("group", [None, "taker"])
def test_effect_has_a_derived_id_and_its_origin(client: Client, group: str | None) -> None:
    react_to(client, Publisher(client, group), 1)
    event = StreamEvent("order-0", 0, "event", b'{"n":0}')
    [paid] = read_published(client, "payment.taken")
    assert paid.metadata["eid"] == effect_id(event, "payment.taken")
    assert (paid.headers["penstock-stream"], paid.headers["penstock-index"]) == ("order-0", "0")
    mails = {mail.data["to"]: mail.headers["ce_id"] for mail in read_published(client, "mail.sent")}
    assert mails == {"buyer": effect_id(event, "to buyer"), "seller": effect_id(event, "to seller")}


def test_publisher_with_a_group_serves_one_reaction(client: Client) -> None:
    def other(event: StreamEvent) -> Effect:
        return Effect("payment.taken", event.data, name="other")

    publisher = Publisher(client, "taker")
    for _ in range(2):
        react(publisher, take_payment)
    with pytest.raises(
        BadParameter, match="publisher is \"one of 'taker', which another has\"; allowed: a Publisher for each"
    ):
        react(publisher, other)
    shared = Publisher(client)  # Without a group each effect is published, whoever says it.
    for effects in (take_payment, other):
        react(shared, effects)


def test_new_effects_of_a_mended_reaction_need_another_group(client: Client) -> None:
    def large(event: StreamEvent) -> Effect | None:
        return Effect("payment.taken", {"order": event.data["n"]}) if event.data["n"] >= 10 else None

    def mended(event: StreamEvent) -> Effect | None:
        return Effect("payment.taken", {"order": event.data["n"]}) if event.data["n"] >= 5 else None

    for group, effects, orders in (("1", large, 10), ("1", mended, 10), ("2", mended, 25)):
        react_to(client, Publisher(client, group), effects=effects)
        assert len(read_published(client, "payment.taken")) == orders
    assert len({event.metadata["eid"] for event in read_published(client, "payment.taken")}) == 15


@pytest.mark.parametrize("effects", ["payment.taken", ["payment.taken"], ("payment.taken", {}), 5], ids=repr)
def test_value_that_is_no_effect_fails_its_event(client: Client, effects: Any) -> None:
    source = MemorySource()
    source.append("order-1", [{"n": 1}])
    processor = InlineProcessor(react(Publisher(client), lambda _: effects), source)
    processor.drain()
    [trouble] = processor.engine.busy.failing.values()
    assert (trouble.tag, trouble.index) == ("BadParameter", 0)
    assert "allowed: Effect(event_type, data), several of them, or None" in (trouble.detail or "")
    with pytest.raises(BadParameter, match="allowed: Effect"):
        Publisher(client).publish("order-1", [(StreamEvent("order-1", 0, "event", b"{}"), effects)])


def test_effect_ids_derive_from_the_eid_of_the_event(client: Client, hub: LiveHub) -> None:
    placed = a_business_event(7)
    client.publish("order.placed", [placed, placed])
    with FeedSource(hub.url, "order.placed") as source:
        InlineProcessor(react(Publisher(client), lambda _: Effect("payment.taken", {"order": 1})), source).drain()
    eids = [event.metadata["eid"] for event in read_published(client, "payment.taken")]
    assert eids == [effect_id(placed["metadata"]["eid"], "payment.taken")] * 2


def test_unanswered_effect_without_a_group_is_repeated_with_the_same_id(hub: LiveHub, client: Client) -> None:
    with Line(hub.port) as line, Client(line.url, retry_timeout=0) as through:
        line.does(unanswered, unanswered, to=is_publish)
        react_to(through, Publisher(through), 10)
    found = read_published(client, "payment.taken")
    assert len(found) > 10, "some are there twice"
    assert len({event.metadata["eid"] for event in found}) == 10

    connection = sqlite3.connect(":memory:")
    seen = Duplicates(connection, "payment.taken", "ledger")
    seen.create()
    assert Counter(event.data["order"] for event in seen.fresh(found)) == Counter(range(10))


def test_effects_with_a_group_are_stored_once_after_unanswered_publishes(
    hub: LiveHub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins, "DELIVERY_TIMEOUT", 0.2)
    with Line(hub.port) as line, Client(line.url, retry_timeout=0) as through:
        line.does(*[unanswered] * 12)
        react_to(through, Publisher(through, "taker"))
        assert line.left == 0
    again = react_to(client, Publisher(client, "taker"))
    assert again.engine.handled == 20
    assert Counter(event.data["order"] for event in read_published(client, "payment.taken")) == Counter(range(20))
    mails = Counter((event.data["order"], event.data["to"]) for event in read_published(client, "mail.sent"))
    assert mails == Counter((order, to) for order in range(20) for to in ("buyer", "seller"))


@pytest.mark.parametrize("kind", ["generator", "one", "none"])
def test_publish_accepts_an_iterable_one_effect_or_none(client: Client, kind: str) -> None:
    event = StreamEvent("order-0", 0, "event", b"{}")
    effect = Effect("payment.taken", {"order": 0})
    given = {"generator": (each for each in [effect]), "one": effect, "none": None}[kind]
    counts = Publisher(client, "taker").publish("order-0", [(event, given)])
    assert counts == (0 if kind == "none" else 1, 0)
    assert len(read_published(client, "payment.taken")) == counts[0]


def test_publish_counts_stored_and_repeated_effects(client: Client) -> None:
    events = [StreamEvent("order-0", at, "event", b'{"n":%d}' % at) for at in range(3)]
    effects = [(event, [Effect("payment.taken", {"order": event.index})]) for event in events]
    assert Publisher(client, "taker").publish("order-0", effects[:2]) == (2, 0)
    assert Publisher(client, "taker").publish("order-0", effects) == (1, 2)


@pytest.mark.parametrize("group", [None, "taker"])
def test_effects_of_many_streams_share_requests(hub: LiveHub, group: str | None) -> None:
    effects = {
        f"order-{stream}": [
            (event, [Effect("payment.taken", {"order": stream, "at": event.index})])
            for event in (StreamEvent(f"order-{stream}", at, "event", b"{}") for at in range(3))
        ]
        for stream in range(700)
    }
    with Line(hub.port) as line, Client(line.url) as through:
        more = {"category": "business", "partition_strategy": "hash", "partition_key_fields": ["order"]}
        through.create_event_type("payment.taken", partition_count=2, more=more)
        publisher = Publisher(through, group)
        assert publisher.publish_all(effects) == (2100, 0)
        assert sum(map(is_publish, line.asked)) <= 6
        found = read_published(through, "payment.taken")
    for stream in range(700):
        assert [event.data["at"] for event in found if event.data["order"] == stream] == [0, 1, 2]
    if group is not None:
        with Client(hub.url) as client:
            assert Publisher(client, group).publish_all(effects) == (0, 2100)


def test_effects_before_a_failing_event_are_published(client: Client) -> None:
    def effects(event: StreamEvent) -> Effect | None:
        if event.data["n"] == 2:
            raise ValueError("no")
        return Effect("payment.taken", {"order": event.data["n"]})

    source = MemorySource()
    source.append("order-0", [{"n": n} for n in range(4)])
    processor = InlineProcessor(react(Publisher(client), effects), source)
    processor.drain()
    assert sorted(event.data["order"] for event in read_published(client, "payment.taken")) == [0, 1]


def test_effects_of_one_name_or_an_unknown_event_type_are_refused(client: Client) -> None:
    event = StreamEvent("order-0", 0, "event", b'{"n":0}')
    with pytest.raises(BadParameter, match="a name of its own"):
        Publisher(client).publish("order-0", [(event, [Effect("mail.sent", {}), Effect("mail.sent", {})])])
    with pytest.raises(PenstockError, match="no event type"):
        Publisher(client).publish("order-0", [(event, [Effect("mail.lost", {})])])
