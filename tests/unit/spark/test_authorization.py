import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import BadParameter, Unauthenticated
from penstock.spark import authorization as authorizing
from penstock.spark.authorization import ANONYMOUS, Credential, authorization
from penstock.spark.nakadi.options import NAMES as NAKADI_NAMES
from penstock.spark.options import known_options, parse_options
from penstock.spark.sink_options import parse_sink_options

LEAST = {"url": "http://localhost:1", "eventType": "a"}
Header = dict[str, str]


def hub_that_takes(*tokens: str, asked: list[str]) -> Callable[[Header], str]:
    def answer(headers: Header) -> str:
        asked.append(headers.get("Authorization", ""))
        if asked[-1].removeprefix("Bearer ") not in tokens:
            raise Unauthenticated
        return "answered"

    return answer


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


def test_refused_request_waits_for_the_new_token_while_the_file_is_being_rotated(tmp_path: Path) -> None:
    file, asked = tmp_path / "token", list[str]()
    file.write_text("old")
    steps = [threading.Timer(0.3, file.unlink), threading.Timer(0.6, file.write_text, ["new"])]
    for step in steps:
        step.start()

    assert Credential(file=str(file)).send(hub_that_takes("new", asked=asked)) == "answered"
    assert asked == ["Bearer old", "Bearer new"]


def test_token_file_that_is_being_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("")
    threading.Timer(0.3, file.write_text, ["new"]).start()

    assert Credential(file=str(file)).headers() == {"Authorization": "Bearer new"}


def test_refused_token_of_a_file_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizing, "ROTATION_SECONDS_MAX", 0.3)
    file, asked = tmp_path / "token", list[str]()
    file.write_text("geheim")

    with pytest.raises(
        Unauthenticated, match=r"the hub refuses the token in .*/token: write a valid one into the file"
    ) as refused:
        Credential(file=str(file)).send(hub_that_takes(asked=asked))

    assert asked == ["Bearer geheim"]
    assert "geheim" not in str(refused.value)


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
        known_options({"token": "geheim"}, NAKADI_NAMES)

    assert "geheim" not in str(refused.value) + repr(refused.value.fields)
