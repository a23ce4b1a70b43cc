from pathlib import Path

import pytest

from penstock.errors import (
    Forbidden,
    Invalid,
    MalformedAnswer,
    NotFound,
    ServerError,
    Unavailable,
    WrongAddress,
)
from penstock.spark.nakadi.cursors import NakadiPartition
from penstock.spark.nakadi.server import NakadiServer
from tests.unit.spark.nakadi.serving import Serving, offset

A = NakadiPartition("a.b", "0")


def test_a_window_is_larger_than_a_micro_batch(nakadi: Serving) -> None:
    options = nakadi.options(max_events_per_trigger=1000, batch_limit=50, commit_timeout=30)
    with NakadiServer(options).stream("s"):
        pass

    query = nakadi.asked[0][1].partition("?")[2]
    assert query == "batch_limit=50&batch_flush_timeout=1&max_uncommitted_events=2000&commit_timeout=30"


def test_each_request_has_the_token_that_the_file_has_then(nakadi: Serving, tmp_path: Path) -> None:
    file = tmp_path / "token"
    server = NakadiServer(nakadi.options(authorization_file=str(file)))
    for token in ("geheim-1", "geheim-2"):
        file.write_text(token)
        server.cursors("s")
        server.commit("s", "stream", [])
        with server.stream("s"):
            pass

    assert [each["authorization"] for each in nakadi.headers] == ["Bearer geheim-1"] * 3 + ["Bearer geheim-2"] * 3


def test_token_is_not_sent_along_a_redirect(nakadi: Serving, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim")
    nakadi.answers = {("GET", "/s"): [(302, None)]}
    NakadiServer(nakadi.options(authorization_file=str(tmp_path / "token"))).event_types("s")

    assert [path for _, path, _ in nakadi.asked] == ["/subscriptions/s", "/subscriptions/elsewhere"]
    assert ["authorization" in each for each in nakadi.headers] == [True, False]


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, "Unauthorized", ServerError),
        (403, "Access on READ subscription:s denied", Forbidden),
        (404, 'Subscription with id "s" does not exist', NotFound),
        (422, "Session with stream id x not found", Invalid),
        (503, "try later", ServerError),
    ],
)
def test_refused_request_raises_the_answer_without_the_token(
    nakadi: Serving, tmp_path: Path, status: int, said: str, kind: type[Exception]
) -> None:
    file = tmp_path / "token"
    file.write_text("geheim")
    nakadi.answers = {("GET", "/cursors"): [(status, said)]}

    with pytest.raises(kind) as refused:
        NakadiServer(nakadi.options(authorization_file=str(file))).cursors("s")

    shown = str(refused.value) + repr(vars(refused.value))
    assert said in shown.replace("\\", "")
    assert "geheim" not in shown


def test_server_that_is_not_nakadi_is_reported(nakadi: Serving) -> None:
    nakadi.answers = {("GET", "/s"): [(404, {"what": "ever"})], ("GET", "/cursors"): [(200, {"nothing": 1})]}
    server = NakadiServer(nakadi.options())

    with pytest.raises(WrongAddress, match="no Nakadi server answers at"):
        server.event_types("s")
    with pytest.raises(MalformedAnswer, match="not what was asked for"):
        server.cursors("s")


def test_server_error_is_retried(nakadi: Serving) -> None:
    nakadi.answers = {("GET", "/cursors"): [(503, "try later"), (500, "oh")]}

    assert NakadiServer(nakadi.options(retry_timeout=30.0)).cursors("s") == {}


def test_move_is_retried_while_a_cursor_reset_is_in_progress(nakadi: Serving) -> None:
    nakadi.answers = {("PATCH", "/cursors"): [(409, "Cursors reset is already in progress")] * 2}
    with pytest.raises(Unavailable, match="others are in the way: Cursors reset"):
        NakadiServer(nakadi.options()).move("s", {A: offset(3)})

    NakadiServer(nakadi.options(retry_timeout=30.0)).move("s", {A: offset(3)})

    assert nakadi.committed == {"0": offset(3)}
