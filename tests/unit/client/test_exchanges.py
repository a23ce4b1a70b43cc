"""One request and one JSON answer: which requests are repeated or never sent, and answers of another kind."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.http.exchanges import JsonExchange, decode_response
from penstock.client.protocol import HubProtocol
from penstock.errors import (
    ConnectionLost,
    EventTypeNotFound,
    GroupNotFound,
    MalformedAnswer,
    ParkedNotFound,
    PenstockError,
    ServerError,
    SubscriptionNotFound,
    Unreachable,
    WrongAddress,
)
from penstock.wire.groups import NewPosition
from penstock.wire.http import Exchange, HttpRequest, HttpResponse, is_not_applied
from tests.failing import has_code
from tests.unit.wire.script import Reply, Script, problem

ASKED = HttpRequest(method="GET", url="http://s/a")
STOPPED = problem(503, "hub-stopped", retry_after=1)
AWAY = Unreachable(url="u", reason="refused")
LOST = ConnectionLost(url="u", reason="reset")
HUB = HubProtocol("http://s/", 30.0)
TYPES, GROUPS, SUBSCRIPTIONS = HUB.event_types, HUB.consumer_groups, HUB.subscriptions
TO_END: Any = {"to": "latest", "reason": None}


def test_request_is_repeated_until_one_of_the_expected_statuses_answers() -> None:
    script = Script(STOPPED, Reply(201, b"[1]"))

    assert decode_response(
        script.play(JsonExchange(30.0, script.clock).send(ASKED, is_not_applied, 200, 201)), list[int]
    ) == [1]
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("reply", "retry_timeout", "code"),
    [(STOPPED, 0, "hub-stopped"), (Reply(201, b"{}"), 30.0, "wrong-address")],
    ids=["without patience", "another status"],
)
def test_request_is_not_repeated(reply: Reply, retry_timeout: float, code: str) -> None:
    script = Script(reply)

    with pytest.raises(PenstockError, check=has_code(code)):
        script.play(JsonExchange(retry_timeout, script.clock).send(ASKED, is_not_applied, 200))


@pytest.mark.parametrize(
    ("body", "error"), [(b" <html>", WrongAddress), (b"{}", MalformedAnswer), (b"\xff", MalformedAnswer)], ids=repr
)
def test_body_of_another_kind_is_refused(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_response(HttpResponse("http://s/a", 200, {}, body), list[int])


REQUESTS: dict[str, tuple[Callable[[], Exchange[Any]], Any, bool]] = {
    "list event types": (TYPES.all, LOST, True),
    "check a definition": (lambda: TYPES.check({"name": "a"}), LOST, True),
    "add partitions": (lambda: TYPES.grow("a", 8), LOST, True),
    "create an event type": (lambda: TYPES.create({"name": "a"}), LOST, False),
    "create an event type, not sent": (lambda: TYPES.create({"name": "a"}), AWAY, True),
    "replace an event type": (lambda: TYPES.replace({"name": "a"}), LOST, False),
    "replace an event type, not sent": (lambda: TYPES.replace({"name": "a"}), AWAY, True),
    "delete an event type": (lambda: TYPES.delete("a"), LOST, False),
    "commit a position": (lambda: GROUPS.commit("g", [NewPosition("a", 0, 7)], None), LOST, True),
    "compare a position": (lambda: GROUPS.commit("g", [NewPosition("a", 0, 7, expected=3)], None), LOST, False),
    "compare a position, refused": (
        lambda: GROUPS.commit("g", [NewPosition("a", 0, 7, expected=3)], None), STOPPED, True),
    "try a reset": (lambda: GROUPS.reset("g", None, **TO_END, dry_run=True), LOST, True),
    "reset": (lambda: GROUPS.reset("g", None, **TO_END, dry_run=False), LOST, False),
    "create a subscription": (lambda: SUBSCRIPTIONS.create(["a"], None, (), {}), LOST, True),
    "show a subscription": (lambda: SUBSCRIPTIONS.show("5"), LOST, True),
    "delete a subscription": (lambda: SUBSCRIPTIONS.delete("5"), LOST, False),
    "retry a parked key": (lambda: SUBSCRIPTIONS.retry_parked("5", "7"), LOST, False),
    "retry all parked keys": (lambda: SUBSCRIPTIONS.retry_parked("5", None), LOST, False),
    "skip a parked key": (lambda: SUBSCRIPTIONS.skip_parked("5", "7", "why"), LOST, False),
}  # fmt: skip


@pytest.mark.parametrize(("ask", "failure", "is_repeated"), REQUESTS.values(), ids=REQUESTS)
def test_request_is_repeated_only_where_that_does_no_harm(
    ask: Callable[[], Exchange[Any]], failure: Any, is_repeated: bool
) -> None:
    script = Script(failure, Reply(401))

    with pytest.raises(ServerError if is_repeated else type(failure)):
        script.play(ask())
    assert len(script.requests) == 1 + is_repeated
    assert len({(each.method, each.url, each.body) for each in script.requests}) == 1


NAMED: list[tuple[type[PenstockError], list[str], list[Callable[[str], Exchange[Any]]]]] = [
    (EventTypeNotFound, ["", "a/b", "a?c", "..", "a b"], [
        TYPES.show, lambda name: TYPES.grow(name, 2), TYPES.delete, TYPES.partitions,
        lambda name: TYPES.check_compatibility(name, "{}", "latest"),
    ]),
    (GroupNotFound, ["", ".", ".."], [
        GROUPS.show, lambda name: GROUPS.commit(name, [NewPosition("a", 0, 7)], None),
        lambda name: GROUPS.history(name, None), GROUPS.forget,
    ]),
    (SubscriptionNotFound, ["", ".", ".."], [
        SUBSCRIPTIONS.show, SUBSCRIPTIONS.delete, SUBSCRIPTIONS.parked,
        lambda name: SUBSCRIPTIONS.stats(name, lag=True),
    ]),
    (ParkedNotFound, ["", "..", "7/x", "²"], [lambda name: SUBSCRIPTIONS.skip_parked("5", name, "why")]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "names", "asking"), NAMED, ids=[error.__name__ for error, *_ in NAMED])
def test_name_that_would_be_another_path_is_not_found_without_a_request(
    error: type[PenstockError], names: list[str], asking: list[Callable[[str], Exchange[Any]]]
) -> None:
    script = Script()
    for name in names:
        for ask in asking:
            with pytest.raises(error, match=re.escape(name) or "."):
                script.play(ask(name))
    assert script.requests == []
