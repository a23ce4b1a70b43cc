"""An idempotent producer whose hub is a script."""

import json
from typing import Any

import msgspec
import pytest

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.log.publishing import Event
from penstock.client.producers.options import PartitionPublishingOptions, PublishResult
from penstock.client.producers.partition_state import PartitionState, ProducerCall
from penstock.client.producers.protocol import ProducerProtocol
from penstock.client.protocol import HubProtocol
from penstock.errors import ConnectionLost, PenstockError, RetriesExhausted, Unreachable
from penstock.wire import producers as wire
from tests.unit.wire.script import Reply, Script, problem

AWAY = Unreachable(url="u", reason="refused")
LOST = ConnectionLost(url="u", reason="reset")
FOREVER = 10.0**9
CATEGORY = Reply(200, b'{"name":"a.b","category":"undefined"}')


def shown_producer(**members: Any) -> wire.ProducerProperties:
    """Return the state of a producer as a hub shows it."""
    values: dict[str, Any] = {
        "producer_group": "g",
        "partition": 3,
        "epoch": 0,
        "last_published_sequence": None,
        "next_sequence": 0,
        "last_offset": None,
        "previous": None,
        "pinned": False,
        "expired": False,
        "updated_at": "",
        "expires_at": "then",
        "expires_after_seconds": 600.0,
        "sequence_modulus": 16,
    }
    return wire.ProducerProperties(**values | members)


def producer_reply(epoch: int = 0, next_sequence: int | None = 0, **others: Any) -> Reply:
    state = shown_producer(epoch=epoch, next_sequence=next_sequence, **others)
    return Reply(200, msgspec.json.encode(state))


def stored_reply(first: int, last: int, *, outcome: str = "appended", epoch: int = 0) -> Reply:
    numbers = {"first": 0, "last": 0, "next": 0}
    body = {"outcome": outcome, "epoch": epoch, "sequence": numbers, "offsets": {"first": first, "last": last}}
    return Reply(200, json.dumps(body).encode())


def unsafe(status: int, code: str, committed: bool | None, *ranges: tuple[int, int], **fields: Any) -> Reply:
    said = [{"first": first, "last": last} for first, last in ranges]
    return problem(status, code, producer_group="g", partition=3, committed=committed, ranges=said, **fields)


class Play:
    """A producer whose hub is a script."""

    def __init__(self, *replies: Reply | PenstockError, **traits: Any) -> None:
        self.script = Script(*replies)
        self.state = PartitionState(3, traits.pop("options", PartitionPublishingOptions()))
        given: dict[str, Any] = {"group": "g", "retry": RetryPolicy(max_attempts=3), "pinned": False}
        given |= {"on_unknown": "resolve", "on_resolution": None, "attempt_timeout": 5.0}
        given |= {"clock": self.script.clock}
        self.protocol = ProducerProtocol("a.b", HubProtocol("http://s", 0.0), **given | traits)

    @staticmethod
    def call(*values: Any, limit: tuple[str, float] = ("timeout", 0.0)) -> ProducerCall:
        return ProducerCall(FOREVER, values=values, limit=limit)

    def send(self, *values: Any, limit: tuple[str, float] = ("timeout", 0.0)) -> PublishResult:
        call = self.call(*values, limit=limit)
        result: PublishResult = self.script.play(self.protocol.send(self.state, values, call))
        assert result is call.result
        return result

    def then(self, *replies: Reply | PenstockError) -> "Play":
        self.script.replies += replies
        self.script.requests.clear()
        return self

    @property
    def asked(self) -> list[str]:
        short = "http://s/event-types/a.b"
        return [f"{each.method} {each.url.removeprefix(short)}" for each in self.script.requests]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(each.body) for each in self.script.requests if each.body]


def in_doubt(event: Event, **traits: Any) -> Play:
    """Return a producer that does not know what became of *event*."""
    play = Play(producer_reply(), CATEGORY, LOST, LOST, LOST, **traits)
    with pytest.raises(RetriesExhausted) as spent:
        play.send(event)
    assert (spent.value.outcome, play.state.status) == ("unknown", "unresolved")
    return play
