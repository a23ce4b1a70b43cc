"""Compressed answers and compressed bodies."""

import gzip
import json
from typing import Any

import httpx2
import pytest
import zstandard

from tests.served import ARROW, Served, create, problem_of

LINE = b'{"data":{"id":1}}\n'
ENCODINGS = pytest.mark.parametrize("encoding", ["gzip", "zstd"])


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(body)


PACK = {"gzip": gzip.compress, "zstd": zstd}


def raw(http: httpx2.Client, path: str, accept: str, **arguments: Any) -> tuple[httpx2.Response, bytes]:
    """Return an answer and its bytes as they came over the wire."""
    with http.stream("GET", path, params=arguments, headers={"accept-encoding": accept}) as answer:
        return answer, b"".join(answer.iter_raw())


def decode(answer: httpx2.Response, body: bytes) -> bytes:
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
    [("gzip", "gzip"), ("gzip, deflate, br, zstd", "zstd"), ("gzip;q=0.5, identity;q=0.8", None), ("br", None)],
)
@pytest.mark.parametrize("events", [0, 3_000])
def test_page_has_the_encoding_that_the_client_weighs_most(
    feed: Served, accept: str, expected: str | None, events: int
) -> None:
    feed.publish_ids(range(events))
    asked: dict[str, Any] = {"n": 1, "cursor0": "_first", "pagesizehint": 10_000}
    plain, body = raw(feed.http, feed.path, "identity", **asked)
    answer, packed = raw(feed.http, feed.path, accept, **asked)

    assert answer.headers.get("content-encoding") == expected
    assert decode(answer, packed) == body
    assert "Accept-Encoding" in answer.headers["vary"]
    assert plain.headers["content-type"] == answer.headers["content-type"]
    assert not (expected and events) or len(packed) < len(body) / 4


@ENCODINGS
def test_page_of_many_chunks_is_one_stream(feed: Served, encoding: str) -> None:
    feed.post(b"".join(b'{"data":{"id":%d,"text":"%s"}}\n' % (i, b"x" * 900) for i in range(4_000)))

    answer, packed = raw(feed.http, feed.path, encoding, n=1, cursor0="_first", pagesizehint=10_000)

    lines = decode(answer, packed).splitlines()
    assert len(lines) == 4_001
    assert "cursor" in json.loads(lines[-1])


def test_arrow_page_is_compressed(feed: Served) -> None:
    feed.publish_ids(range(100))
    plain, packed = (feed.events(sending={"accept": ARROW, "accept-encoding": each}) for each in ("identity", "gzip"))
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content


@ENCODINGS
def test_json_is_compressed_if_it_is_large(http: httpx2.Client, encoding: str) -> None:
    path = f"/event-types/{create(http, annotations={'why': 'x' * 1000}).name}"
    answer, body = raw(http, path, encoding)
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == (encoding, "Accept-Encoding")
    assert int(answer.headers["content-length"]) == len(body) < 1000
    assert json.loads(decode(answer, body)) == http.get(path).json()

    for small, accept in ((f"{path}/partitions", encoding), (path, "identity")):
        answer, body = raw(http, small, accept)
        assert "content-encoding" not in answer.headers
        assert json.loads(body)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "x-gzip", "X-GZip", "identity", ""])
def test_encoded_body_is_decoded(feed: Served, encoding: str) -> None:
    pack = PACK.get(encoding.lower().removeprefix("x-"), bytes)
    assert feed.post(pack(LINE) + pack(LINE * 2), {"content-encoding": encoding}).json()["count"] == 3
    assert len(feed.read().events) == 3


@ENCODINGS
def test_corrupt_or_too_large_body_is_refused_whole(feed: Served, encoding: str) -> None:
    sent = {"content-encoding": encoding}
    problem = problem_of(feed.post(PACK[encoding](LINE * 1_000)[:-1], sent), 400, "bad-parameter")
    assert problem["parameter"] == "Content-Encoding"
    assert encoding in problem["allowed"]
    bomb = PACK[encoding](b"\n" * (64 << 20))
    assert problem_of(feed.post(bomb, sent), 413, "body-too-large")["limit"] == 50 << 20
    assert feed.read().events == []


def test_unknown_encoding_is_415_with_the_known_ones(feed: Served) -> None:
    for encoding in (b"br", b"gzip, gzip", "é".encode()):
        problem = problem_of(feed.post(LINE, {"content-encoding": encoding}), 415, "unsupported-media-type")  # type: ignore[dict-item]
        assert "gzip" in problem["allowed"]
