import pytest

from penstock.client.json_exchange import JsonExchange, decoded
from penstock.errors import HubStopped, MalformedAnswer, ServerError, WrongAddress
from penstock.wire.exchange import Answer, Request
from penstock.wire.refusal import is_undone
from tests.unit.wire.script import Reply, Script, problem

ASKED = Request(method="GET", url="http://s/a")


def test_what_can_be_repeated_is_asked_for_until_it_is_answered() -> None:
    script = Script(problem(503, "hub-stopped", retry_after=1), Reply(200, b"[1]"))

    answer = script.play(JsonExchange(30.0, script.clock).done(ASKED, is_undone, 200))

    assert decoded(answer, list[int]) == [1]
    assert len(script.requests) == 2


def test_no_longer_than_patience_lasts_and_nothing_else() -> None:
    stopped = problem(503, "hub-stopped", retry_after=1)
    script = Script(stopped, Reply(201, b"{}"))

    with pytest.raises(HubStopped):
        script.play(JsonExchange(0, script.clock).done(ASKED, is_undone, 200))
    with pytest.raises(ServerError):
        script.play(JsonExchange(30.0, script.clock).done(ASKED, is_undone, 200))


def test_each_status_that_is_expected_is_an_answer() -> None:
    script = Script(Reply(201, b"[]"))

    assert script.play(JsonExchange(30.0, script.clock).done(ASKED, is_undone, 200, 201)).status == 201


@pytest.mark.parametrize(
    ("body", "told"), [(b" <html>", WrongAddress), (b"{}", MalformedAnswer), (b"\xff", MalformedAnswer)], ids=repr
)
def test_what_is_not_of_that_kind_is_told(body: bytes, told: type[Exception]) -> None:
    with pytest.raises(told):
        decoded(Answer("http://s/a", 200, {}, body), list[int])
