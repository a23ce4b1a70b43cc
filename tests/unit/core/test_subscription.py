"""What a subscription can be asked to be, by Nakadi's contract (its digest, 5.1 and 5.2)."""

from typing import Any

import pytest

from penstock.core.retrying import POLICY, SEND_COUNT, Retrying, retrying_of
from penstock.core.subscription import completed_subscription, identity_of, replaced_subscription
from penstock.errors import InvalidSubscription, MalformedSubscription

READERS = [{"data_type": "service", "value": "shop"}]


def given(**members: Any) -> dict[str, Any]:
    return {"owning_application": "shop", "event_types": ["order.placed"]} | members


def test_defaults_are_filled_in_and_the_rest_is_kept() -> None:
    found = completed_subscription(given(event_types=["b", "a", "b"], mine=1, id="x", status=[]))

    assert found == {
        "owning_application": "shop",
        "event_types": ["a", "b"],
        "consumer_group": "default",
        "read_from": "end",
        "initial_cursors": [],
        "authorization": None,
        "annotations": {},
        "labels": {},
        "mine": 1,
    }
    assert identity_of(found) == ("shop", ("a", "b"), "default")


WRONG = {
    "no application": ({"owning_application": None}, InvalidSubscription, "owning_application"),
    "an application without a letter": ({"owning_application": ""}, InvalidSubscription, "owning_application"),
    "an application that is a number": ({"owning_application": 7}, MalformedSubscription, "owning_application"),
    "no event types": ({"event_types": None}, InvalidSubscription, "event_types"),
    "an empty list of event types": ({"event_types": []}, InvalidSubscription, "event_types"),
    "an event type without a name": ({"event_types": [""]}, InvalidSubscription, "event_types"),
    "event types that are a text": ({"event_types": "a"}, MalformedSubscription, "event_types"),
    "a group without a letter": ({"consumer_group": ""}, InvalidSubscription, "consumer_group"),
    "a beginning that there is not": ({"read_from": "middle"}, MalformedSubscription, "read_from"),
    "cursors that are none": ({"initial_cursors": ["x"]}, InvalidSubscription, "initial_cursors"),
    "cursors with a number": (
        {"initial_cursors": [{"event_type": "a", "partition": 0, "offset": "BEGIN"}]},
        InvalidSubscription,
        "initial_cursors",
    ),
    "cursors that are no list": ({"initial_cursors": {}}, MalformedSubscription, "initial_cursors"),
    "nobody who reads": (
        {"authorization": {"admins": READERS, "readers": []}}, InvalidSubscription, "authorization.readers"
    ),
    "nobody who administers": ({"authorization": {"readers": READERS}}, InvalidSubscription, "authorization.admins"),
    "an application with a line end": ({"owning_application": "a\nb"}, InvalidSubscription, "owning_application"),
    "an application that is a book": ({"owning_application": "a" * 1025}, InvalidSubscription, "owning_application"),
    "a group with an escape": ({"consumer_group": "\x1b[31m"}, InvalidSubscription, "consumer_group"),
    "a group that turns around": ({"consumer_group": "a\u202eb"}, InvalidSubscription, "consumer_group"),
    "half a character as a group": ({"consumer_group": "\ud800"}, InvalidSubscription, "consumer_group"),
    "an application with NUL": ({"owning_application": "a\0"}, InvalidSubscription, "owning_application"),
    "NUL deep within": ({"unknown": [{"a": ["b", {"\0": 1}]}]}, InvalidSubscription, "unknown"),
    "a reader with NUL": (
        {"authorization": {"admins": READERS, "readers": [{"data_type": "service", "value": "\0"}]}},
        InvalidSubscription,
        "authorization",
    ),
    "a label that is none": ({"labels": {"a b": "c"}}, InvalidSubscription, "labels[a b]"),
    "a count without a policy": ({"annotations": {SEND_COUNT: "3"}}, InvalidSubscription, f"annotations[{POLICY}]"),
    "a policy without a count": (
        {"annotations": {POLICY: "SKIP_EVENT"}}, InvalidSubscription, f"annotations[{SEND_COUNT}]"
    ),
    "a count that is too low": (
        {"annotations": {SEND_COUNT: "1", POLICY: "SKIP_EVENT"}}, InvalidSubscription, f"annotations[{SEND_COUNT}]"
    ),
    "a count that is too high": (
        {"annotations": {SEND_COUNT: "11", POLICY: "SKIP_EVENT"}}, InvalidSubscription, f"annotations[{SEND_COUNT}]"
    ),
    "a policy in small letters": (
        {"annotations": {SEND_COUNT: "2", POLICY: "skip_event"}}, InvalidSubscription, f"annotations[{POLICY}]"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("members", "kind", "field"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(members: dict[str, Any], kind: type[InvalidSubscription], field: str) -> None:
    with pytest.raises(InvalidSubscription) as refused:
        completed_subscription(given(**members))

    assert (type(refused.value), refused.value.fields["field"]) == (kind, field)


@pytest.mark.parametrize("body", [None, [], "x", 7], ids=str)
def test_it_is_an_object(body: Any) -> None:
    with pytest.raises(MalformedSubscription, match="a subscription is a JSON object"):
        completed_subscription(body)


def test_all_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidSubscription) as refused:
        completed_subscription({})

    assert [each["field"] for each in refused.value.fields["violations"]] == ["owning_application", "event_types"]


def test_only_who_may_and_what_is_attached_become_others() -> None:
    old = completed_subscription(given(authorization={"admins": READERS, "readers": READERS}))
    more = {"authorization": {"admins": READERS, "readers": [{"data_type": "*", "value": "*"}]}, "labels": {"a": "b"}}

    assert replaced_subscription(old, old | more) == old | more
    assert replaced_subscription(old, given(event_types=["order.placed", "order.placed"], **more)) == old | more


OTHERS = {
    "owning_application": "other",
    "event_types": ["order.paid"],
    "consumer_group": "other",
    "read_from": "begin",
    "initial_cursors": [{"event_type": "order.placed", "partition": "0", "offset": "BEGIN"}],
    "authorization": None,
}


@pytest.mark.parametrize("field", OTHERS)
def test_the_rest_stays(field: str) -> None:
    old = completed_subscription(given(authorization={"admins": READERS, "readers": READERS}))

    with pytest.raises(InvalidSubscription) as refused:
        replaced_subscription(old, old | {field: OTHERS[field]})

    assert refused.value.fields["field"] == field


def test_what_becomes_of_events_that_cannot_be_processed() -> None:
    assert retrying_of(completed_subscription(given())) is None
    found = completed_subscription(given(annotations={SEND_COUNT: "10", POLICY: "DEAD_LETTER_QUEUE"}))
    assert retrying_of(found) == Retrying(10, "DEAD_LETTER_QUEUE")
