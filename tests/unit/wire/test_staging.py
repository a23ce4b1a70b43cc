"""What is asked for in staged publishing: good bodies, and what is told of bad ones."""

import json
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.wire import staging as wire
from penstock.wire.producers import NUMBER_MAX
from penstock.wire.staging import OpenUpload, Part, PublishBatch, parse_begin, parse_complete, parse_open, parse_publish

OPEN = {"producer_group": "g", "batch": 7, "query": "q"}
PART = {"upload": "u", "chunks": 2, "events": 9, "digest": "0" * 32}


def test_an_upload_says_what_it_is_for() -> None:
    assert parse_open(json.dumps(OPEN | {"batch": NUMBER_MAX}).encode()) == OpenUpload("g", NUMBER_MAX, "q")


def test_a_batch_names_its_uploads() -> None:
    body = json.dumps({"query": "q", "uploads": [PART]}).encode()

    assert parse_publish(body) == PublishBatch("q", [Part("u", 2, 9, "0" * 32)])


def test_a_batch_is_begun_by_a_query_and_completed_with_counts() -> None:
    assert parse_begin(b'{"query":"q"}').query == "q"
    assert parse_complete(b'{"query":"q","events":{"0":3,"12":0}}') == ("q", {0: 3, 12: 0})


@pytest.mark.parametrize(
    "body",
    [
        b'{"query":"q"}', b'{"query":"a b","events":{}}', b'{"query":"q","events":{"x":1}}',
        b'{"query":"q","events":{"01":1}}', b'{"query":"q","events":{"0":-1}}', b'{"query":"q","events":{},"more":1}',
    ],
)  # fmt: skip
def test_counts_that_are_none_are_refused(body: bytes) -> None:
    with pytest.raises(BadParameter):
        parse_complete(body)


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"producer_group": "a b"}, "producer_group"),
        ({"batch": -1}, "batch"),
        ({"batch": NUMBER_MAX + 1}, "batch"),
        ({"batch": "7"}, "body"),
        ({"query": ""}, "query"),
        ({"query": "a b"}, "query"),
        ({"query": "q" * 201}, "query"),
        ({"more": 1}, "body"),
    ],
)
def test_what_an_upload_is_for_has_to_be_right(change: dict[str, Any], parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_open(json.dumps(OPEN | change).encode())
    assert refused.value.fields["parameter"] == parameter


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"chunks": -1}, "chunks"),
        ({"events": -1}, "events"),
        ({"digest": "0" * 31}, "digest"),
        ({"digest": "X" * 32}, "digest"),
        ({"more": 1}, "body"),
    ],
)
def test_what_a_batch_names_has_to_be_right(change: dict[str, Any], parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_publish(json.dumps({"query": "q", "uploads": [PART | change]}).encode())
    assert refused.value.fields["parameter"] == parameter


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"query":"q","query":"r","uploads":[]}', b'{"query":"\xff"}'])
def test_a_body_is_strict_json(body: bytes) -> None:
    with pytest.raises(BadParameter, match="body"):
        parse_publish(body)


def test_a_batch_has_not_too_many_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "UPLOADS_MAX", 1)
    with pytest.raises(BadParameter, match="up to 1"):
        parse_publish(json.dumps({"query": "q", "uploads": [PART, PART]}).encode())
