"""Subscriptions: their definition and its changes, as in Nakadi, and when an event is given up."""

from typing import Any

import pytest

from penstock.core.subscriptions.definition import (
    PARK_AFTER,
    POLICY,
    SEND_COUNT,
    UnprocessablePolicy,
    complete_subscription,
    read_unprocessable_policy,
    replace_subscription,
    start_partition,
    subscription_identity,
)
from penstock.errors import InvalidSubscription
from tests.failing import has_code

READERS = [{"data_type": "service", "value": "shop"}]
AUTHORIZATION = {"authorization": {"admins": READERS, "readers": READERS}}


def define(**members: Any) -> dict[str, Any]:
    return {"owning_application": "shop", "event_types": ["order.placed"]} | members


def test_defaults_are_filled_in_and_other_members_kept() -> None:
    found = complete_subscription(define(event_types=["b", "a", "b"], mine=1, id="x", status=[]))

    assert found == {
        "owning_application": "shop", "event_types": ["a", "b"], "consumer_group": "default", "read_from": "end",
        "initial_cursors": [], "authorization": None, "annotations": {}, "labels": {}, "mine": 1,
    }  # fmt: skip
    assert subscription_identity(found) == ("shop", ("a", "b"), "default")


def policy(**annotations: Any) -> dict[str, Any]:
    names = {"count": SEND_COUNT, "policy": POLICY, "park": PARK_AFTER}
    return {"annotations": {names[name]: value for name, value in annotations.items()}}


def allow(readers: Any, **others: Any) -> dict[str, Any]:
    return {"authorization": {"admins": READERS, "readers": readers} | others}


SERVICE, USER = {"data_type": "service", "value": "x"}, {"data_type": "user", "value": "x"}
OF_COUNT, OF_POLICY, OF_PARKING = (f"annotations[{name}]" for name in (SEND_COUNT, POLICY, PARK_AFTER))
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no application": ({"owning_application": None}, "owning_application"),
    "an empty application": ({"owning_application": ""}, "owning_application"),
    "no event types": ({"event_types": None}, "event_types"),
    "an empty list of event types": ({"event_types": []}, "event_types"),
    "an event type without a name": ({"event_types": [""]}, "event_types"),
    "an empty group": ({"consumer_group": ""}, "consumer_group"),
    "cursors that are texts": ({"initial_cursors": ["x"]}, "initial_cursors"),
    "cursors with a number": (
        {"initial_cursors": [{"event_type": "a", "partition": 0, "offset": "BEGIN"}]}, "initial_cursors"),
    "an empty list of readers": (allow([]), "authorization.readers"),
    "no readers": (allow(None), "authorization.readers"),
    "a reader twice": (allow([SERVICE | {"more": 1}, SERVICE]), "authorization.readers"),
    "a reader without a value": (allow([{"data_type": "service"}]), "authorization.readers"),
    "a reader of a number": (allow([SERVICE | {"data_type": 1}]), "authorization.readers"),
    "no administrators": ({"authorization": {"readers": READERS}}, "authorization.admins"),
    "an application with a line end": ({"owning_application": "a\nb"}, "owning_application"),
    "a long application": ({"owning_application": "a" * 1025}, "owning_application"),
    "a group with an escape": ({"consumer_group": "\x1b[31m"}, "consumer_group"),
    "a group that turns around": ({"consumer_group": "a\u202eb"}, "consumer_group"),
    "half a character as a group": ({"consumer_group": "\ud800"}, "consumer_group"),
    "an application with NUL": ({"owning_application": "a\0"}, "owning_application"),
    "NUL deep within": ({"unknown": [{"a": ["b", {"\0": 1}]}]}, "unknown"),
    "a reader with NUL": (allow([SERVICE | {"value": "\0"}]), "authorization"),
    "a label with a space": ({"labels": {"a b": "c"}}, "labels[a b]"),
    "a count without a policy": (policy(count="2"), OF_POLICY),
    "a policy without a count": (policy(policy="SKIP_EVENT"), OF_COUNT),
    "a count that is too low": (policy(count="1", policy="SKIP_EVENT"), OF_COUNT),
    "a count that is too high": (policy(count="11", policy="SKIP_EVENT"), OF_COUNT),
    "a policy in small letters": (policy(count="2", policy="skip_event"), OF_POLICY),
    "a policy of Penstock": (policy(count="2", policy="PARK_KEY"), OF_POLICY),
    "parking that is too early": (policy(park="1"), OF_PARKING),
    "parking with a leading zero": (policy(park="02"), OF_PARKING),
    "parking after nothing": (policy(park=""), OF_PARKING),
    "parking after a number": (policy(park=2), OF_PARKING),
    "parking beside a policy": (policy(park="2", count="2", policy="SKIP_EVENT"), OF_PARKING),
    "parking that is misspelt": ({"annotations": {"penstock/park-after": "3"}}, "annotations[penstock/park-after]"),
}  # fmt: skip
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "an application that is a number": ({"owning_application": 7}, "owning_application"),
    "event types that are a text": ({"event_types": "a"}, "event_types"),
    "another beginning": ({"read_from": "middle"}, "read_from"),
    "cursors that are an object": ({"initial_cursors": {}}, "initial_cursors"),
    "readers that are texts": (allow(["x"]), "authorization.readers"),
    "readers that are an object": (allow({}), "authorization.readers"),
    "authorization that is a list": ({"authorization": []}, "authorization"),
    "authorization that is a text": ({"authorization": "x"}, "authorization"),
}


def refusal(definition: Any) -> InvalidSubscription:
    with pytest.raises(InvalidSubscription) as refused:
        complete_subscription(definition)
    return refused.value


@pytest.mark.parametrize(("members", "field"), (INVALID | MALFORMED).values(), ids=INVALID | MALFORMED)
def test_wrong_field_is_named(members: dict[str, Any], field: str) -> None:
    error = refusal(define(**members))

    code = "malformed-subscription" if (members, field) in MALFORMED.values() else "invalid-subscription"
    assert (error.code, error.field) == (code, field)


def test_all_wrong_fields_are_named() -> None:
    def wrong(definition: dict[str, Any]) -> list[str]:
        return [each["field"] for each in refusal(definition).fields["violations"]]

    assert wrong({}) == ["owning_application", "event_types"]
    assert wrong(define(**policy(count="11", policy="skip_event"))) == [OF_COUNT, OF_POLICY]


def test_definition_other_than_an_object_is_malformed() -> None:
    for body in [None, [], "x", 7]:
        with pytest.raises(
            InvalidSubscription, check=has_code("malformed-subscription"), match="a subscription is a JSON object"
        ):
            complete_subscription(body)


def test_authorization_and_annotations_can_be_changed() -> None:
    old = complete_subscription(define(**AUTHORIZATION))
    more = allow([{"data_type": "*", "value": "*"}]) | {"labels": {"a": "b"}}

    assert replace_subscription(old, old | more) == old | more
    assert replace_subscription(old, define(event_types=["order.placed", "order.placed"], **more)) == old | more


OTHERS = {
    "owning_application": "other",
    "event_types": ["order.paid"],
    "consumer_group": "other",
    "read_from": "begin",
    "initial_cursors": [{"event_type": "order.placed", "partition": "0", "offset": "BEGIN"}],
    "authorization": None,
}


def test_other_fields_cannot_be_changed() -> None:
    for field, value in OTHERS.items():
        old = complete_subscription(define(**AUTHORIZATION))

        with pytest.raises(InvalidSubscription) as refused:
            replace_subscription(old, old | {field: value})

        assert refused.value.field == field


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, None),
        ({"annotations": {"other": "3"}}, None),
        (allow([SERVICE, USER]), None),
        (policy(count="2", policy="SKIP_EVENT"), UnprocessablePolicy(2, "SKIP_EVENT")),
        (policy(count="10", policy="DEAD_LETTER_QUEUE"), UnprocessablePolicy(10, "DEAD_LETTER_QUEUE")),
        (policy(park="2"), UnprocessablePolicy(2, "PARK_KEY")),
        (policy(park="10"), UnprocessablePolicy(10, "PARK_KEY")),
    ],
    ids=["nothing", "something else", "readers", "left out", "kept", "parked", "parked late"],
)
def test_policy_for_unprocessable_events_is_read_from_annotations(
    members: dict[str, Any], expected: UnprocessablePolicy | None
) -> None:
    assert read_unprocessable_policy(complete_subscription(define(**members))) == expected


# When an event is given up.


def play(poison: set[int], *, limit: int, batch_limit: int, streams: int) -> tuple[list[str], list[int]]:
    """Play a consumer that commits all but *poison* and reconnects; return its batches and the events given up."""
    failed = offset = single_until = 0
    told, given_up = [], []
    for _ in range(streams):
        begins = start_partition(failed, offset, single_until, limit=limit, batch_limit=batch_limit)
        if begins.gives_up:
            given_up.append(offset)
            offset += 1
        failed, single_until = begins.failed, begins.single_until
        while True:
            size = 1 if offset < single_until else batch_limit
            told.append(f"{offset}+{size}")
            if poison.isdisjoint(range(offset, offset + size)):
                offset, failed = offset + size, 0
                if offset >= 12:
                    return told, given_up
                continue
            failed += 1
            break
    return told, given_up


def test_failing_batch_is_repeated_and_then_sent_event_by_event() -> None:
    told, given_up = play({2}, limit=3, batch_limit=4, streams=9)

    assert told == ["0+4"] * 3 + ["0+1", "1+1", "2+1"] + ["2+1"] * 2 + ["3+1", "4+4", "8+4"]
    assert given_up == [2]


def test_each_of_several_failing_events_is_given_up() -> None:
    _, given_up = play({0, 3, 9}, limit=2, batch_limit=4, streams=30)

    assert given_up == [0, 3, 9]
