"""Who of a subscription is there, who still has something, and why a stream cannot go on."""

from typing import Any

import pytest

from penstock.hub.look import LEASE_US, Look, has_lapsed, holds, is_being_sent, is_live, may_commit
from penstock.hub.reasons import GIVEN_BACK, GROWN, RESETTING, TIME_OVER
from penstock.storage.subscriptions import Session, Slot, Subscription
from tests.unit.hub.subscribing import P, Q

NOW = 10 * LEASE_US


def session(**members: Any) -> Session:
    given = dict.fromkeys(Session._fields) | {"id": "a", "commit_ms": 60_000, "seen_at": NOW}
    return Session(**given | members)  # type: ignore[arg-type]


def slot(**members: Any) -> Slot:
    given = dict.fromkeys(Slot._fields) | {"place": P, "owner": "a"}
    return Slot(**given | members)  # type: ignore[arg-type]


def look(*sessions: Session, now: int = NOW, resetting_until: int | None = None, **of_slot: Any) -> Look:
    given = dict.fromkeys(Subscription._fields) | {"id": "s", "resetting_until": resetting_until}
    return Look(Subscription(**given), [slot(**of_slot)], sessions, (), now)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "sent", "is_what"),
    [
        ({}, None, "live, may commit"),
        ({"seen_at": NOW - LEASE_US + 1}, None, "live, may commit"),
        ({"seen_at": NOW - LEASE_US}, None, "lapsed, may commit"),
        ({"seen_at": NOW - 60_000_000 + 1}, None, "lapsed, may commit"),
        ({"seen_at": NOW - 60_000_000}, None, "may commit"),
        ({"holds_until": NOW + 1}, 5, "holds, may commit"),
        ({"holds_until": NOW}, 5, ""),
        ({"holds_until": NOW}, None, "holds, is being sent"),
        ({"holds_until": NOW, "seen_at": NOW - LEASE_US}, None, ""),
    ],
    ids=str,
)
def test_what_a_stream_is(members: dict[str, Any], sent: int | None, is_what: str) -> None:
    one, slots = session(**members), [slot(sent=sent)]
    found = {
        "live": is_live(one, NOW), "lapsed": has_lapsed(one, NOW), "holds": holds(one, slots, NOW),
        "may commit": may_commit(one, NOW), "is being sent": is_being_sent(one, slots, NOW),
    }  # fmt: skip

    assert {each for each, is_so in found.items() if is_so} == set(filter(None, is_what.split(", ")))
    present = bool({"live", "lapsed", "holds"} & set(is_what.split(", ")))
    assert list(look(one, sent=sent).present) == ["a"] * present


@pytest.mark.parametrize(
    ("found", "known", "reason"),
    [
        (look(session()), {P}, None),
        (look(session()), {P, Q}, GROWN),
        (look(session(id="b")), {P, Q}, TIME_OVER),
        (look(session(holds_until=1)), {P, Q}, GIVEN_BACK),
        (look(session(), resetting_until=NOW + 1), {P, Q}, RESETTING),
        (look(session(), resetting_until=NOW), {P}, None),
    ],
    ids=["as before", "grown", "gone", "given back", "resetting", "was reset"],
)
def test_why_a_stream_cannot_go_on(found: Look, known: set[Any], reason: str | None) -> None:
    assert found.ends("a", known) == reason
