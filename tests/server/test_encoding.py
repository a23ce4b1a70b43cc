"""Compressed answers and compressed bodies."""

import gzip
import json
from typing import Any

import httpx2
import pytest
import zstandard

from penstock.testing.factories import an_event_type
from tests.served import ARROW, Served, create, problem_of

LINE = b'{"data":{"id":1}}\n'


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(body)


def raw(feed: Served, accept: str, /, path: str = "", **arguments: Any) -> tuple[httpx2.Response, bytes]:
    """Return an answer and its bytes as they came over the wire."""
    headers = {"accept-encoding": accept}
    with feed.http.stream("GET", feed.path + path, params=arguments, headers=headers) as answer:
        return answer, b"".join(answer.iter_raw())


def decoded(answer: httpx2.Response, body: bytes) -> bytes:
    match answer.headers.get("content-encoding"):
        case "gzip":
            return gzip.decompress(body)
        case "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
        case found:
            assert found is None
            return body


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd;q=0.1, gzip;q=0.9", "gzip"),
        ("identity", None),
        ("", None),
        ("br", None),
        ("gzip;q=0", None),
        ("gzip;q=0.5, identity;q=0.8", None),
        ("gzip;q=nonsense", None),
        (";;;,,q=", None),
    ],
)
@pytest.mark.parametrize("events", [0, 1, 3_000])
def test_an_answer_comes_as_the_client_likes_it_best(
    http: httpx2.Client, accept: str, expected: str | None, events: int
) -> None:
    feed = create(http)
    feed.publish_ids(range(events))
    plain, body = raw(feed, "identity", n=1, cursor0="_first", pagesizehint=10_000)
    answer, packed = raw(feed, accept, n=1, cursor0="_first", pagesizehint=10_000)
    assert answer.headers.get("content-encoding") == expected
    assert decoded(answer, packed) == body
    assert "Accept-Encoding" in answer.headers["vary"]
    assert plain.headers["content-type"] == answer.headers["content-type"]
    if expected and events > 1:
        assert len(packed) < len(body) / 4


def test_an_arrow_page_is_compressed_too(feed: Served) -> None:
    feed.publish_ids(range(100))
    plain = feed.events(sending={"accept": ARROW, "accept-encoding": "identity"})
    packed = feed.events(sending={"accept": ARROW, "accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_page_of_many_chunks_is_one_whole_stream(feed: Served, encoding: str) -> None:
    feed.post(b'{"data":{"text":"' + b"x" * 900 + b'"}}\n' * 1)
    body = b"".join(b'{"data":{"id":%d,"text":"%s"}}\n' % (i, b"x" * 900) for i in range(8_000))
    feed.post(body)
    answer, packed = raw(feed, encoding, n=1, cursor0="_first", pagesizehint=10_000)
    lines = decoded(answer, packed).splitlines()
    assert len(lines) == 8_002
    assert "cursor" in json.loads(lines[-1])


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_may_be_compressed(feed: Served, encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zstd
    assert feed.post(pack(LINE * 3), {"content-encoding": encoding}).json()["count"] == 3
    assert feed.post(pack(LINE) + pack(LINE * 2), {"content-encoding": encoding.upper()}).json()["count"] == 3
    assert feed.post(pack(b""), {"content-encoding": encoding}).json()["count"] == 0
    assert len(feed.read().events) == 6


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "cut short", "flipped", "garbage", "empty", "garbage after"])
def test_a_corrupt_body_is_refused_whole(feed: Served, encoding: str, damage: str) -> None:
    body = (gzip.compress if encoding == "gzip" else zstd)(LINE * 1_000)
    broken = {
        "cut": body[:-1],
        "cut short": body[: len(body) // 2],
        "flipped": body[:12] + bytes([body[12] ^ 0xFF]) + body[13:],
        "garbage": b"garbage",
        "empty": b"",
        "garbage after": body + b"garbage that is long enough",
    }[damage]
    problem = problem_of(feed.post(broken, {"content-encoding": encoding}), 400, "bad-parameter")
    assert problem["parameter"] == "Content-Encoding"
    assert encoding in problem["allowed"]
    assert feed.read().events == []


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "é"])
def test_an_encoding_that_is_not_spoken_is_415_naming_those_that_are(feed: Served, encoding: str) -> None:
    problem = problem_of(feed.post(LINE, {"content-encoding": encoding.encode()}), 415, "unsupported-media-type")  # type: ignore[dict-item]
    assert "gzip" in problem["allowed"]


@pytest.mark.parametrize("encoding", ["identity", "", "Identity"])
def test_no_encoding_has_names_too(feed: Served, encoding: str) -> None:
    assert feed.post(LINE, {"content-encoding": encoding}).json()["count"] == 1


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_before_it_has_gone_off(feed: Served, encoding: str) -> None:
    bomb = (gzip.compress if encoding == "gzip" else zstd)(b"\n" * (300 << 20))
    assert problem_of(feed.post(bomb, {"content-encoding": encoding}), 413, "body-too-large")["limit"] == 50 << 20


@pytest.mark.parametrize("name", ["x-gzip", "X-GZip"])
def test_body_in_x_gzip_is_read_as_gzip(feed: Served, name: str) -> None:
    assert feed.post(gzip.compress(b'{"data":{"id":7}}'), {"content-encoding": name}).status_code == 200
    assert feed.read().ids == [7]


def test_an_event_type_may_come_compressed_too(http: httpx2.Client) -> None:
    body = gzip.compress(json.dumps(an_event_type("compressed.type")).encode())
    assert http.post("/event-types", content=body, headers={"content-encoding": "gzip"}).status_code == 201


def got(http: httpx2.Client, path: str, accept: str) -> tuple[httpx2.Response, bytes]:
    with http.stream("GET", path, headers={"accept-encoding": accept}) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_json_is_compressed_where_that_is_worth_while(http: httpx2.Client, encoding: str) -> None:
    large = create(http, annotations={"why": "x" * 1000})
    answer, body = got(http, f"/event-types/{large.name}", encoding)
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == (encoding, "Accept-Encoding")
    assert int(answer.headers["content-length"]) == len(body) < 1000
    assert json.loads(decoded(answer, body)) == http.get(f"/event-types/{large.name}").json()

    answer, body = got(http, f"/event-types/{large.name}/partitions", encoding)
    assert "content-encoding" not in answer.headers
    assert json.loads(body)

    answer, body = got(http, f"/event-types/{large.name}", "identity")
    assert "content-encoding" not in answer.headers
    assert json.loads(body)["name"] == large.name
