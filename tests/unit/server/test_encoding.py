"""Content encodings: the choice of an answer's, and bodies and streams in gzip and zstd."""

import gzip
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadParameter, RequestTooLarge, UnsupportedFormat
from penstock.server.http.encoding import StreamEncoder, choose_encoding, decode_body, encoder
from tests.failing import has_code

LIMIT = 1 << 20


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
