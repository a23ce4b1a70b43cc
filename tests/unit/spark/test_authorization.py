import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from penstock.errors import BadParameter, Unauthenticated
from penstock.spark import authorization as authorizing
from penstock.spark.authorization import ANONYMOUS, Credential, authorization
from penstock.spark.foreign.nakadi import SubscriptionQuery
from penstock.spark.foreign.query import option_names
from penstock.spark.options import parse_options, select_options
from penstock.spark.publishing import HubBatches
from penstock.spark.sink_options import parse_sink_options

REVOCATION_SECONDS = 1.0
"""So long the hub takes at most to refuse a token that another process has revoked."""
ENDING_SECONDS = 5.0
"""So long a query goes on at most after its token was revoked, by docs/guarantees.md."""
SPARK_SECONDS = 1.5
"""Of these Spark has so long to end a query: on a machine of two cores that has nothing else to do it takes less."""
LEAST = {"url": "http://localhost:1", "eventType": "a"}
Header = dict[str, str]


def hub_that_takes(*tokens: str, asked: list[str]) -> Callable[[Header], str]:
    def answer(headers: Header) -> str:
        asked.append(headers.get("Authorization", ""))
        if asked[-1].removeprefix("Bearer ") not in tokens:
            raise Unauthenticated
        return "answered"

    return answer


class SimulatedTime:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.steps = list[Callable[[], object]]()
        """Each is run by another sleep."""

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimulatedTime:
    found = SimulatedTime()
    monkeypatch.setattr(authorizing, "time", found)
    return found


def test_no_token_file_sends_no_authorization_header() -> None:
    assert authorization(None) == {}


def test_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    assert authorization(str(file)) == {"Authorization": "Bearer first"}

    file.write_text("second")
    assert authorization(str(file)) == {"Authorization": "Bearer second"}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("", "there is none in it"),
        ("geheim geheim", "it has spaces or several lines"),
        ("geheim\ngeheim", "it has spaces or several lines"),
        ("gehéim", "it is not ASCII"),
    ],
)
def test_malformed_token_is_refused_and_not_shown(tmp_path: Path, held: str, said: str) -> None:
    file = tmp_path / "token"
    file.write_text(held, encoding="utf-8")

    with pytest.raises(BadParameter, match=said) as refused:
        authorization(str(file))

    assert "option tokenFile is" in str(refused.value)
    assert "geh" not in str(refused.value) + repr(refused.value.fields)


def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"option tokenFile is '.*/nowhere'; allowed: .*: No such file"):
        authorization(str(tmp_path / "nowhere"))


def test_refused_request_is_sent_again_once_with_the_new_token_of_the_file(tmp_path: Path) -> None:
    file, asked = tmp_path / "token", list[str]()
    file.write_text("old")
    take = hub_that_takes("new", asked=asked)

    def rotate(headers: Header) -> str:
        file.write_text("new")
        return take(headers)

    assert Credential(file=str(file)).send(rotate) == "answered"
    assert asked == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize(
    ("credential", "requests", "advice"),
    [
        (Credential("geheim"), 1, "the hub refuses the token that the query was given: give it a valid one"),
        (ANONYMOUS, 1, "the hub needs a token: name a file with one in the option tokenFile"),
    ],
)
def test_refused_token_is_not_sent_again_and_not_shown(credential: Credential, requests: int, advice: str) -> None:
    asked: list[str] = []
    with pytest.raises(Unauthenticated, match=advice) as refused:
        credential.send(hub_that_takes(asked=asked))

    assert len(asked) == requests
    assert "geheim" not in str(refused.value) + repr(refused.value)


def test_refused_request_waits_for_the_new_token_while_the_file_is_being_rotated(
    tmp_path: Path, clock: SimulatedTime
) -> None:
    file, asked = tmp_path / "token", list[str]()
    file.write_text("old")
    clock.steps = [file.unlink, lambda: None, lambda: file.write_text("new")]

    assert Credential(file=str(file)).send(hub_that_takes("new", asked=asked)) == "answered"
    assert asked == ["Bearer old", "Bearer new"]
    assert not clock.steps


def test_token_file_that_is_being_written_is_read_again(tmp_path: Path, clock: SimulatedTime) -> None:
    file = tmp_path / "token"
    file.write_text("")
    clock.steps = [lambda: None, lambda: file.write_text("new")]

    assert Credential(file=str(file)).headers() == {"Authorization": "Bearer new"}


@pytest.mark.usefixtures("clock")
def test_refused_token_of_a_file_names_the_file(tmp_path: Path) -> None:
    file, asked = tmp_path / "token", list[str]()
    file.write_text("geheim")

    with pytest.raises(
        Unauthenticated, match=r"the hub refuses the token in .*/token: write a valid one into the file"
    ) as refused:
        Credential(file=str(file)).send(hub_that_takes(asked=asked))

    assert asked == ["Bearer geheim"]
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("is_removed", [False, True])
def test_query_whose_token_is_revoked_ends_within_five_seconds_by_its_clock(
    tmp_path: Path, clock: SimulatedTime, is_removed: bool
) -> None:
    file = tmp_path / "token"
    file.write_text("revoked")

    def answer(_: Header) -> str:
        if is_removed:
            file.unlink(missing_ok=True)
        raise Unauthenticated

    began = clock.now
    with pytest.raises((Unauthenticated, BadParameter)):
        Credential(file=str(file)).send(answer)

    assert REVOCATION_SECONDS + clock.now - began <= ENDING_SECONDS - SPARK_SECONDS


def test_task_that_spark_runs_again_does_not_wait_for_another_token(
    tmp_path: Path, clock: SimulatedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, waited = tmp_path / "token", list[float]()
    file.write_text("revoked")
    for attempt in range(4):
        monkeypatch.setattr(TaskContext, "get", lambda n=attempt: SimpleNamespace(attemptNumber=lambda: n))
        began = clock.now
        with pytest.raises(Unauthenticated, match="the hub refuses the token in"):
            Credential(file=str(file)).send(hub_that_takes(asked=[]))
        waited.append(clock.now - began)

    assert waited[0] > 0
    assert waited[1:] == [0, 0, 0]


def test_upload_is_dropped_without_waiting_for_another_token(
    tmp_path: Path, clock: SimulatedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, began, sent = tmp_path / "token", clock.now, list[Header]()
    file.write_text("revoked")

    def refuse(_: str, *, method: str, headers: Header) -> None:
        assert method == "DELETE"
        sent.append(headers)
        raise Unauthenticated

    monkeypatch.setattr("penstock.spark.publishing.send_request", refuse)
    with pytest.raises(Unauthenticated):
        HubBatches("http://localhost:1", 1.0, Credential(file=str(file))).drop("a", "u")

    assert sent == [{"Authorization": "Bearer revoked"}]
    assert clock.now == began


@pytest.mark.parametrize("parse", [parse_options, parse_sink_options])
def test_options_of_a_query_do_not_show_its_token(parse: Callable[[dict[str, str]], object]) -> None:
    options = parse(LEAST | {"TOKEN": "geheim"})

    assert pickle.loads(pickle.dumps(options)) == options
    assert "geheim" not in repr(options)


@pytest.mark.parametrize("given", [{"token": "geheim geheim"}, {"token": ""}, {"token": "geheim", "tokenFile": "/t"}])
@pytest.mark.parametrize("parse", [parse_options, parse_sink_options])
def test_malformed_token_option_is_refused_and_not_shown(
    parse: Callable[[dict[str, str]], object], given: dict[str, str]
) -> None:
    with pytest.raises(BadParameter, match=r"option token is '\(not shown\)'") as refused:
        parse(LEAST | given)

    assert "geheim" not in str(refused.value) + repr(refused.value.fields)


def test_unknown_option_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(BadParameter, match=r"there is no option 'token' \(given: '\(not shown\)'\)") as refused:
        select_options({"token": "geheim"}, option_names(SubscriptionQuery))

    assert "geheim" not in str(refused.value) + repr(refused.value.fields)
