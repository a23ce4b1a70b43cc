"""What a reaction publishes has the same id whenever it is published, and is stored once where a group is given."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import FIRST, Client
from penstock.errors import BadParameter, PenstockError
from penstock.processing import (
    Duplicates,
    Effect,
    Effects,
    FeedSource,
    Inline,
    MemorySource,
    Publisher,
    Rules,
    StreamEvent,
    effect_id,
    react,
)
from penstock.processing.targets import origins
from penstock.testing.factories import a_business_event
from penstock.testing.live_hub import LiveHub
from tests.faults.proxy import Asked, Line, Visit, unanswered


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        for name in ("order.placed", "payment.taken"):
            client.create_event_type(name, category="business", partition_count=2)
        client.create_event_type("mail.sent", partition_count=2)
        yield client


def taken(event: StreamEvent) -> list[Effect]:
    order = event.data["n"]
    return [
        Effect("payment.taken", {"order": order}),
        Effect("mail.sent", {"order": order, "to": "buyer"}, "to buyer"),
        Effect("mail.sent", {"order": order, "to": "seller"}, "to seller"),
    ]


def held(client: Client, name: str) -> list[Any]:
    with client.feed(name) as feed:
        found: list[Any] = []
        for partition in feed.cursors():
            cursor = FIRST
            while (page := feed.read({partition: cursor}, headers="_all")).events:
                cursor = page.cursors[partition]
                found += page.events
        return found


def reacted(client: Client, publisher: Publisher, events: int = 20, effects: Effects = taken) -> Inline:
    source = MemorySource()
    for number in range(events):
        source.append(f"order-{number % 5}", [{"n": number}])
    processor = Inline(react(publisher, effects), source, rules=Rules(events_per_call=3))
    processor.drain(advance=True)
    return processor


def is_publish(visit: Visit | Asked) -> bool:
    return visit.method == "POST" and (visit.path.endswith("/events") or visit.path.startswith("/feeds/"))


@pytest.mark.parametrize("group", [None, "taker"])
def test_each_effect_has_its_id_and_origin(client: Client, group: str | None) -> None:
    reacted(client, Publisher(client, group), 1)
    event = StreamEvent("order-0", 0, "event", b'{"n":0}')
    [paid] = held(client, "payment.taken")
    assert paid.metadata["eid"] == effect_id(event, "payment.taken")
    assert (paid.headers["penstock-stream"], paid.headers["penstock-index"]) == ("order-0", "0")
    mails = {mail.data["to"]: mail.headers["ce_id"] for mail in held(client, "mail.sent")}
    assert mails == {"buyer": effect_id(event, "to buyer"), "seller": effect_id(event, "to seller")}


def test_what_cannot_publish_or_say_effects_is_refused_when_it_is_given(client: Client) -> None:
    with pytest.raises(BadParameter, match=r"publisher is .*Client.*; allowed: Publisher\(client\)"):
        react(client, taken)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match=r"effects is .*\(_, __\)'; allowed: a function that takes \(event\)"):
        react(Publisher(client), lambda _, __: None)  # type: ignore[arg-type, misc]

    async def later(event: StreamEvent) -> Effect:
        return Effect("payment.taken", event.data)

    with pytest.raises(BadParameter, match="effects is 'async later'; allowed: a function that is not async"):
        react(Publisher(client), later)  # type: ignore[arg-type]


def test_a_publisher_with_a_group_is_of_one_reaction(client: Client) -> None:
    def other(event: StreamEvent) -> Effect:
        return Effect("payment.taken", event.data, name="other")

    publisher = Publisher(client, "taker")
    for _ in range(2):
        react(publisher, taken)
    with pytest.raises(
        BadParameter, match="publisher is \"one of 'taker', which another has\"; allowed: a Publisher for each"
    ):
        react(publisher, other)
    shared = Publisher(client)  # Without a group each effect is published, whoever says it.
    for effects in (taken, other):
        react(shared, effects)


def test_what_a_mended_reaction_says_anew_needs_another_group(client: Client) -> None:
    def large(event: StreamEvent) -> Effect | None:
        return Effect("payment.taken", {"order": event.data["n"]}) if event.data["n"] >= 10 else None

    def mended(event: StreamEvent) -> Effect | None:
        return Effect("payment.taken", {"order": event.data["n"]}) if event.data["n"] >= 5 else None

    for group, effects, orders in (("1", large, 10), ("1", mended, 10), ("2", mended, 25)):
        reacted(client, Publisher(client, group), effects=effects)
        assert len(held(client, "payment.taken")) == orders
    assert len({event.metadata["eid"] for event in held(client, "payment.taken")}) == 15


@pytest.mark.parametrize("effects", ["payment.taken", ["payment.taken"], ("payment.taken", {}), 5], ids=repr)
def test_what_is_no_effect_fails_its_event_and_says_what_would_be(client: Client, effects: Any) -> None:
    source = MemorySource()
    source.append("order-1", [{"n": 1}])
    processor = Inline(react(Publisher(client), lambda _: effects), source)
    processor.drain()
    [trouble] = processor.engine.busy.failing.values()
    assert (trouble.tag, trouble.index) == ("BadParameter", 0)
    assert "allowed: Effect(event_type, data), several of them, or None" in (trouble.detail or "")
    with pytest.raises(BadParameter, match="allowed: Effect"):
        Publisher(client).publish("order-1", [(StreamEvent("order-1", 0, "event", b"{}"), effects)])


def test_an_event_that_has_an_id_gives_it_to_its_effects_wherever_it_is_read(client: Client, hub: LiveHub) -> None:
    placed = a_business_event(7)
    client.publish("order.placed", [placed, placed])
    with FeedSource(hub.url, "order.placed") as source:
        Inline(react(Publisher(client), lambda _: Effect("payment.taken", {"order": 1})), source).drain()
    eids = [event.metadata["eid"] for event in held(client, "payment.taken")]
    assert eids == [effect_id(placed["metadata"]["eid"], "payment.taken")] * 2


def test_without_a_group_a_doubtful_effect_is_published_again_and_known_by_its_id(hub: LiveHub, client: Client) -> None:
    with Line(hub.port) as line, Client(line.url, patience=0) as through:
        line.does(unanswered, unanswered, to=is_publish)
        reacted(through, Publisher(through), 10)
    found = held(client, "payment.taken")
    assert len(found) > 10, "some are there twice"
    assert len({event.metadata["eid"] for event in found}) == 10

    connection = sqlite3.connect(":memory:")
    seen = Duplicates(connection, "payment.taken", "ledger")
    seen.create()
    assert Counter(event.data["order"] for event in seen.fresh(found)) == Counter(range(10))


def test_with_a_group_each_effect_is_stored_once(hub: LiveHub, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "DELIVERY_S", 0.2)
    with Line(hub.port) as line, Client(line.url, patience=0) as through:
        line.does(*[unanswered] * 12)
        reacted(through, Publisher(through, "taker"))
        assert line.left == 0
    again = reacted(client, Publisher(client, "taker"))
    assert again.engine.handled == 20
    assert Counter(event.data["order"] for event in held(client, "payment.taken")) == Counter(range(20))
    mails = Counter((event.data["order"], event.data["to"]) for event in held(client, "mail.sent"))
    assert mails == Counter((order, to) for order in range(20) for to in ("buyer", "seller"))


@pytest.mark.parametrize("kind", ["generator", "one", "none"])
def test_effects_may_be_given_as_a_function_of_react_returns_them(client: Client, kind: str) -> None:
    event = StreamEvent("order-0", 0, "event", b"{}")
    effect = Effect("payment.taken", {"order": 0})
    given = {"generator": (each for each in [effect]), "one": effect, "none": None}[kind]
    published = Publisher(client, "taker").publish("order-0", [(event, given)])
    assert published == (0 if kind == "none" else 1, 0)
    assert len(held(client, "payment.taken")) == published[0]


def test_what_was_published_before_is_counted_apart(client: Client) -> None:
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
        found = held(through, "payment.taken")
    for stream in range(700):
        assert [event.data["at"] for event in found if event.data["order"] == stream] == [0, 1, 2]
    if group is not None:
        with Client(hub.url) as client:
            assert Publisher(client, group).publish_all(effects) == (0, 2100)


def test_events_before_one_that_fails_are_done(client: Client) -> None:
    def effects(event: StreamEvent) -> Effect | None:
        if event.data["n"] == 2:
            raise ValueError("no")
        return Effect("payment.taken", {"order": event.data["n"]})

    source = MemorySource()
    source.append("order-0", [{"n": n} for n in range(4)])
    processor = Inline(react(Publisher(client), effects), source)
    processor.drain()
    assert sorted(event.data["order"] for event in held(client, "payment.taken")) == [0, 1]


def test_two_effects_of_one_name_are_refused(client: Client) -> None:
    event = StreamEvent("order-0", 0, "event", b'{"n":0}')
    with pytest.raises(BadParameter, match="a name of its own"):
        Publisher(client).publish("order-0", [(event, [Effect("mail.sent", {}), Effect("mail.sent", {})])])
    with pytest.raises(PenstockError, match="no event type"):
        Publisher(client).publish("order-0", [(event, [Effect("mail.lost", {})])])
