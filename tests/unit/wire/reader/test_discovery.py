import json
from typing import Any

import pytest

from penstock.errors import BadParameter, EventTypeNotFound, MalformedAnswer, ServerError, WrongAddress
from penstock.wire.reader.discovery import Discovery, Partition, discover, version_one
from tests.unit.wire.script import Reply, Script, problem


def found(document: Any, partition_count: int | None = None) -> Discovery:
    result: Discovery = Script(Reply(200, json.dumps(document).encode())).play(
        discover("http://s/feed", partition_count)
    )
    return result


def test_discovery_is_a_get_without_arguments() -> None:
    script = Script(Reply(400, b"n is missing"))

    assert script.play(discover("http://s/feed", 4)) == version_one(4)
    assert [(request.method, request.url) for request in script.requests] == [("GET", "http://s/feed")]


def test_a_server_that_answers_400_needs_a_partition_count() -> None:
    with pytest.raises(BadParameter, match="partition_count"):
        Script(Reply(400, b"n is missing")).play(discover("http://s/feed"))


def test_feedapi_tells_its_partitions() -> None:
    discovery = found(
        {
            "token": "t",
            "partitions": [
                {"id": "0", "closed": True, "unknown": 1},
                {"id": "16000", "startsAfterPartition": "0"},
                {"id": 7, "cursorFromPartitions": ["5", "4"]},
            ],
            "exactlyOnce": True,
        }
    )

    assert discovery == Discovery(
        2, (Partition(0, True), Partition(16000, starts_after=0), Partition(7, cursor_from=(5, 4))), "t", True
    )
    assert not discovery.is_static


def test_the_names_in_feedapis_examples_are_understood_too() -> None:
    discovery = found(
        {
            "token": "t",
            "partitions": [{"id": "1", "startsAfterParent": "0"}, {"id": "2", "splitFromAncestors": ["24001"]}],
        }
    )

    assert discovery.partitions == (Partition(1, starts_after=0), Partition(2, cursor_from=(24001,)))
    assert not discovery.exactly_once


def test_a_feed_whose_partitions_are_plain_is_static() -> None:
    assert found({"token": "1-2", "partitions": [{"id": "0"}, {"id": "1"}]}).is_static


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"partitions": []},
        {"token": "t", "partitions": []},
        {"token": "t", "partitions": [{"id": "x"}]},
        {"token": "t", "partitions": [{"id": "40000"}]},
        {"token": "t", "partitions": [{"id": "-1"}]},
        {"token": "t", "partitions": [{"id": "1"}, {"id": "01"}]},
        {"token": "t", "partitions": [{"id": "1", "startsAfterPartition": "y"}]},
    ],
)
def test_what_is_no_discovery_is_refused(document: Any) -> None:
    with pytest.raises(MalformedAnswer):
        found(document)


def test_a_page_of_html_is_no_discovery() -> None:
    with pytest.raises(WrongAddress, match=r"no feed answers at http://s/feed, .* 200: <html>"):
        Script(Reply(200, b"<html>welcome</html>")).play(discover("http://s/feed", 4))


def test_a_server_without_such_a_feed_is_told_from_one_that_has_it() -> None:
    with pytest.raises(WrongAddress, match=r"no feed answers at http://s/feed, .* 404: Not Found"):
        Script(Reply(404, b"Not Found")).play(discover("http://s/feed", 4))


def test_a_refusal_for_a_browser_is_no_zeroeventhub() -> None:
    with pytest.raises(WrongAddress, match="400: <html>"):
        Script(Reply(400, b"<html>plain HTTP was sent to an HTTPS port</html>")).play(discover("http://s/feed"))


def test_other_refusals_are_raised_as_what_they_are() -> None:
    with pytest.raises(ServerError, match="403"):
        Script(Reply(403, b"no")).play(discover("http://s/feed", 4))
    with pytest.raises(EventTypeNotFound):
        Script(problem(404, "event-type-not-found", event_type="x")).play(discover("http://s/feed", 4))


@pytest.mark.parametrize("count", [0, -1, 32769])
def test_a_partition_count_has_bounds(count: int) -> None:
    with pytest.raises(BadParameter):
        version_one(count)
