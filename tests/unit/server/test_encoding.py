"""Media types and content encodings: the choice of an answer's, and bodies and streams in gzip and zstd."""

import gzip
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from penstock.errors import BadParameter, RequestTooLarge, UnsupportedFormat
from penstock.server.http.encoding import StreamEncoder, choose_encoding, choose_form, decode_body, encoder, weights
from tests.failing import has_code

LIMIT = 1 << 20

# Media types

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        *((empty, {}) for empty in (None, "", ",", " ; q=1")),
        ("A/B;v=1;q=0.25 , */*;q=0.1,c", {"a/b": 0.25, "*/*": 0.1, "c": 1.0}),
    ],
)
def test_media_types_of_accept_have_their_weights(accept: str | None, found: dict[str, float]) -> None:
    assert weights(accept) == found


CHOSEN: dict[tuple[str, ...], dict[str | None, str | None]] = {
    (NDJSON, ARROW): {
        **dict.fromkeys((None, "", "*/*", "application/*", BROWSER, JAVA, JSON, "application/jsonl"), NDJSON),
        f"{JSON};q=0, */*": NDJSON,
        f"{ARROW}, */*": ARROW,
        f"application/*;q=0.5, {NDJSON};q=0": ARROW,
        f"{ARROW};q=0.9, */*;q=0.1": ARROW,
        ARROW.title(): ARROW,
        f"{ARROW}, {NDJSON}": ARROW,
        f"{ARROW};q=0, {NDJSON}": NDJSON,
        f"{ARROW};q=0.1, {NDJSON};q=0.9": NDJSON,
        f"{JSON}, {ARROW};q=0.5": NDJSON,
        f"application/jsonl;q=0.2, {JSON}, {ARROW};q=0.5": NDJSON,
        "*/*;q=0, application/*": NDJSON,
        **dict.fromkeys(("text/html", "text/event-stream", "*/*;q=0", f"{NDJSON};q=0, {ARROW};q=0", "q"), None),
    },
    (JSON,): {
        **dict.fromkeys((NDJSON, JSON, "application/problem+json, application/json;q=0.1", BROWSER), JSON),
        **dict.fromkeys((ARROW, "application/xml", f"*/*, {JSON};q=0"), None),
    },
    ("text/plain", JSON): {
        **dict.fromkeys((None, "*/*", PROMETHEUS, f"{JSON};q=0.2, text/*;q=0.3"), "text/plain"),
        JSON: JSON,
        "text/html": None,
    },
    ("text/html",): {BROWSER: "text/html", JSON: None},
}
"""The media types that a route offers, and which of them the header `Accept` chooses; None where it takes none."""


@pytest.mark.parametrize("offered", CHOSEN, ids=", ".join)
def test_answer_has_the_media_type_that_the_client_likes_best(offered: tuple[str, ...]) -> None:
    for accept, chosen in CHOSEN[offered].items():
        headers = [] if accept is None else [(b"accept", accept.encode())]
        request = Request({"type": "http", "headers": headers})
        if chosen is None:
            with pytest.raises(UnsupportedFormat, check=has_code("not-acceptable")) as refused:
                choose_form(request, *offered)
            assert refused.value.allowed == ", ".join(offered)
        else:
            assert choose_form(request, *offered) == chosen, accept


# Content encodings


def packed(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body)
    return zstandard.ZstdCompressor(write_checksum=True).compress(body)


ENCODINGS = st.sampled_from(["gzip", "zstd"])


@given(ENCODINGS, st.lists(st.binary(max_size=3_000), min_size=1, max_size=4))
def test_body_of_several_members_is_decoded_whole(encoding: str, bodies: list[bytes]) -> None:
    members = b"".join(packed(body, encoding) for body in bodies)
    assert decode_body(members, encoding, LIMIT) == b"".join(bodies)


@given(ENCODINGS, st.lists(st.binary(max_size=3_000), min_size=1, max_size=3), st.data())
def test_truncated_body_is_refused_unless_it_ends_with_a_member(
    encoding: str, bodies: list[bytes], data: st.DataObject
) -> None:
    members = [packed(body, encoding) for body in bodies]
    whole = b"".join(members)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    ends = {sum(map(len, members[:count])): b"".join(bodies[:count]) for count in range(1, len(bodies))}
    if len(cut) in ends:
        assert decode_body(cut, encoding, LIMIT) == ends[len(cut)]
    else:
        with pytest.raises(BadParameter):
            decode_body(cut, encoding, LIMIT)


@given(ENCODINGS, st.binary(min_size=1, max_size=60))
def test_body_of_random_bytes_is_refused(encoding: str, garbage: bytes) -> None:
    with pytest.raises(BadParameter):
        decode_body(garbage, encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_decoded_body_is_limited(encoding: str) -> None:
    assert len(decode_body(packed(b"x" * LIMIT, encoding), encoding, LIMIT)) == LIMIT
    with pytest.raises(RequestTooLarge, check=has_code("body-too-large")):
        decode_body(packed(b"x" * (LIMIT + 1), encoding), encoding, LIMIT)


def test_unknown_encoding_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormat, check=has_code("unsupported-media-type"), match="br"):
        decode_body(b"", "br", LIMIT)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, None),
        ("", None),
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd;q=0.1, gzip;q=0.9", "gzip"),
        ("identity", None),
        ("gzip;q=0.5, identity;q=0.8", None),
        ("gzip;q=nonsense", None),
        (";;;,,q=", None),
        ("gzip;q=0.2, zstd;q=0.1", "gzip"),
        ("zstd, identity;q=0.5", "zstd"),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=nan", None),
        ("gzip;q=-1", None),
        ("gzip;q=0", None),
        ("br, deflate", None),
    ],
)
def test_answer_has_the_encoding_that_the_client_weighs_most(accept: str | None, chosen: str | None) -> None:
    assert choose_encoding(accept) == chosen


@given(ENCODINGS, st.lists(st.binary(max_size=3_000), max_size=5))
def test_answer_in_pieces_is_one_stream_and_a_stream_can_be_decoded_piece_by_piece(
    encoding: str, pieces: list[bytes]
) -> None:
    answer = encoder(encoding)
    sent = b"".join([*map(answer.compress, pieces), answer.flush()])
    assert decode_body(sent, encoding, LIMIT) == b"".join(pieces)

    encode = StreamEncoder(encoding)
    decode: Any = zlib.decompressobj(31) if encoding == "gzip" else zstandard.ZstdDecompressor().decompressobj()
    whole = b""
    for piece in pieces:
        sent = encode.compress(piece)
        assert decode.decompress(sent) == piece
        whole += sent
    assert decode_body(whole + encode.end(), encoding, LIMIT) == b"".join(pieces)
