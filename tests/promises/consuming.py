"""A consumer that subscribes, streams, commits, fails, resets or leaves at random."""

from collections import Counter
from random import Random
from typing import Final

from penstock.core.subscriptions.definition import complete_subscription
from penstock.core.subscriptions.delivery import DeliveryBatch, DeliveryRules
from penstock.errors import (
    CommitRefused,
    EventTypeNotFound,
    HubUnavailable,
    Invalid,
    StreamNotFound,
    SubscriptionBusy,
    SubscriptionNotFound,
)
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.storage.subscriptions import StoredSubscription

RULES: Final = DeliveryRules(
    max_uncommitted=20, batch_limit=5, flush_timeout=0.001, commit_timeout=1.0, bytes_max=1 << 20
)
ANNOTATIONS: Final = {
    "nakadi.zalando.org/subscription-max-event-send-count": "2",
    "nakadi.zalando.org/subscription-unprocessable-event-policy": "DEAD_LETTER_QUEUE",
}
PASSING: Final = (
    CommitRefused, EventTypeNotFound, Invalid, SubscriptionBusy, StreamNotFound, HubUnavailable,
    SubscriptionNotFound,
)  # fmt: skip
"""What may be said where others subscribe, reset and leave, and event types come and go."""


def consume(hub: Hub, names: list[str], chance: Random, did: Counter[str]) -> None:
    """Do something to a subscription of some of these event types, and count what was done."""
    try:
        did[_act(hub, names, chance)] += 1
    except PASSING as error:
        did[error.code] += 1


def _act(hub: Hub, names: list[str], chance: Random) -> str:
    subscription, _ = hub.subscriptions.create(
        complete_subscription(
            {
                "owning_application": "shop",
                "event_types": sorted({DEAD_LETTERS, *chance.sample(names, 1)}) if chance.random() < 0.5 else names[:2],
                "consumer_group": chance.choice("ab"),
                "read_from": "begin",
                "annotations": ANNOTATIONS,
            }
        )
    )
    does = chance.random()
    if does < 0.1:
        hub.subscriptions.delete(subscription.id)
        return "deleted"
    if does < 0.2:
        places = {slot.place: 0 for slot in hub.subscriptions.sessions.snapshot(subscription.id).slots[:3]}
        hub.subscriptions.resets.begin(subscription.id, places)
        try:
            return "reset" if hub.subscriptions.resets.finish(subscription.id, places) else "not reset yet"
        finally:
            hub.subscriptions.resets.cancel(subscription.id)
    return _stream(hub, subscription, chance)


def _stream(hub: Hub, subscription: StoredSubscription, chance: Random) -> str:
    stream = hub.subscriptions.streams.open(subscription.id, frozenset(), RULES)
    done = "streamed"
    try:
        for _ in range(chance.randint(1, 4)):
            sent: list[DeliveryBatch] = [batch for batches in stream.step() for batch in batches if batch.events]
            if sent and chance.random() < 0.7:
                chosen = chance.sample(sent, chance.randint(1, len(sent)))
                commits = [CursorCommit(batch.place, batch.position) for batch in chosen]
                hub.subscriptions.commits.submit(subscription.id, stream.session_id, commits).result(300)
                done = "committed"
        if chance.random() < 0.5:
            hub.subscriptions.streams.release(subscription.id, stream.session_id)
    finally:
        stream.close()
    return done
