"""FeedAPI v2 on the wire."""

import json
from typing import Any

import pytest

from penstock.errors import BadCursor, BadParameter, StaleToken
from penstock.wire.feedapi import LINE_FRAME, check_token, checkpoint_line, discovery, event_line, parse_read
from penstock.wire.query import Query


def asked(text: str) -> Any:
    return parse_read(Query(text.encode()))


def test_a_request_is_read_with_its_defaults() -> None:
    found = asked("token=1-4&partition=3&cursor=_first")
    assert (found.token, found.partition, found.cursor, found.until) == ("1-4", 3, "_first", None)
    assert (found.page_size, found.headers, found.kinds, found.wait_s) == (1_000, None, None, 0.0)


@pytest.mark.parametrize("missing", ["token", "partition", "cursor"])
def test_what_is_missing_is_named(missing: str) -> None:
    given = {"token": "1-4", "partition": "3", "cursor": "_first"}
    del given[missing]
    with pytest.raises(BadParameter) as raised:
        asked("&".join(f"{name}={value}" for name, value in given.items()))
    assert raised.value.fields["parameter"] == missing


@pytest.mark.parametrize("name", ["cursor", "until"])
def test_a_cursor_that_cannot_be_is_named(name: str) -> None:
    with pytest.raises(BadCursor) as raised:
        asked("token=1-4&partition=3&cursor=_first&until=x".replace(f"{name}=", f"{name}=%FF"))
    assert raised.value.fields["parameter"] == name


def test_a_token_is_the_epoch_and_the_number_of_partitions() -> None:
    check_token("2-4", 2, 4)
    for given in ("1-4", "2-5", "", "2-4 ", "\udcff"):
        with pytest.raises(StaleToken) as raised:
            check_token(given, 2, 4)
        json.dumps(raised.value.fields).encode()
        assert raised.value.fields["current"] == "2-4"


def test_discovery_gives_ids_as_text() -> None:
    found = discovery(1, 3, exactly_once=True)
    assert found == {"token": "1-3", "partitions": [{"id": "0"}, {"id": "1"}, {"id": "2"}], "exactlyOnce": True}


def test_lines_are_json_each_on_its_line() -> None:
    before, between, after = LINE_FRAME
    assert (before + between.join(["{}", '{"a":1}']) + after).encode() == event_line({}, b"{}") + event_line(
        {}, b'{"a":1}'
    )
    assert json.loads(event_line({"h": "\n"}, b"{}")) == {"headers": {"h": "\n"}, "data": {}}
    assert json.loads(checkpoint_line("c")) == {"cursor": "c"}
