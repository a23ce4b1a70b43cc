"""Where a body ends (RFC 9112, 6 and 7): it is stored whole or refused, and never executed."""

import pytest

from tests.conformance.http import malformed
from tests.conformance.http.front import (
    ANSWERED,
    DELETE,
    EVENT,
    FEED,
    REFUSED,
    STORED,
    STORED_AND_CLOSED,
    Await,
    ByByte,
    Case,
    Front,
    Outcome,
    case,
    event,
    get,
    named,
    post,
    post_chunked,
    raw,
)

SIZE = len(EVENT)
TO_FEED = (f"POST /feeds/{FEED} HTTP/1.1", "Host: hub")
CHUNKS = (b"%x\r\n" % SIZE, EVENT, b"\r\n0\r\n\r\n")
BODY_IN_CHUNKS = b"".join(CHUNKS)
POISONED = EVENT + DELETE
INVALID = Outcome((422,))


def of_length(*lengths: bytes | str, body: bytes = EVENT) -> bytes:
    """Return a publish with these values of Content-Length."""
    fields = [b"Content-Length:" + (each.encode() if isinstance(each, str) else each) for each in lengths]
    return raw(*TO_FEED, *fields, body=body)


def of_coding(*codings: str, body: bytes = BODY_IN_CHUNKS) -> bytes:
    """Return a publish in chunks with these values of Transfer-Encoding."""
    return raw(*TO_FEED, *(f"Transfer-Encoding: {each}" for each in codings), body=body)


TO_SETTINGS = ("POST /settings/features HTTP/1.1", "Host: hub")
TOO_LARGE = [Outcome((413,)), Outcome((413,), stays=False)]

WHOLE = [
    case("in one segment", post(), STORED),
    case("after its head", [post()[:-SIZE], EVENT], STORED),
    case("byte by byte", ByByte(post()), STORED),
    case("of 3000 events", post(body=b"".join(map(event, range(3_000)))), Outcome((200,), tuple(range(3_000)))),
    case("that is empty", post(body=b""), Outcome((200,))),
    case("that spells a request", post(body=POISONED), INVALID),
    case("that spells a request, after its head", [post(body=POISONED)[: -len(POISONED)], POISONED], INVALID),
    case("of a GET", get(f"Content-Length: {len(DELETE)}") + DELETE, ANSWERED),
    case("that is too long", post(body=bytes(1 << 20) + DELETE, to="/settings/features"), *TOO_LARGE),
    case("of a request to nowhere", post(body=DELETE, to="/nowhere"), Outcome((404,))),
    case("of a method that the route does not know", post(body=DELETE, to="/version"), Outcome((405,))),
]

EXPECT = "Expect: 100-continue"
LATE = [
    case(
        "of a request to nowhere that expects 100",
        [post(EXPECT, body=DELETE, to="/nowhere")[: -len(DELETE)], Await(404), DELETE],
        Outcome((404,)),
        Outcome((404,), stays=False),
    )
]
LATE += [
    case(f"to {path}", [post(body=DELETE, to=path)[: -len(DELETE)], Await(status), DELETE], *outcomes)
    for path, status, outcomes in [
        ("/nowhere", 404, [Outcome((404,)), Outcome((404,), stays=False)]),
        ("/version", 405, [Outcome((405,)), Outcome((405,), stays=False)]),
        ("/feeds//x", 400, [Outcome((400,)), Outcome((400,), stays=False)]),
    ]
]

CHUNKED = [
    case(
        "that are too many",
        raw(*TO_SETTINGS, "Transfer-Encoding: chunked", body=b"8000\r\n%s\r\n" % bytes(1 << 15) * 32 + b"0\r\n\r\n"),
        *TOO_LARGE,
    ),
    case("in one segment", of_coding("chunked"), STORED),
    case("chunk by chunk", [of_coding("chunked", body=b""), *CHUNKS], STORED),
    case("byte by byte", ByByte(of_coding("chunked")), STORED),
    case("one byte a chunk", post_chunked(*(b"1\r\n%c\r\n" % byte for byte in EVENT), b"0\r\n\r\n"), STORED),
    case("with the coding in capitals", of_coding("CHUNKED"), STORED),
    case("with a size in capitals and zeros before it", post_chunked(b"0012\r\n", EVENT, b"\r\n000\r\n\r\n"), STORED),
    case("with extensions", post_chunked(b'12;a=b;c="d e";f\r\n', EVENT, b"\r\n0;last\r\n\r\n"), STORED),
    case("with a trailer", post_chunked(*CHUNKS[:2], b"\r\n0\r\nX-Checksum: 7\r\n\r\n"), STORED),
    case(
        "with trailers that would change its framing, its length or its coding",
        post_chunked(
            *CHUNKS[:2],
            b"\r\n0\r\nContent-Length: 500\r\nTransfer-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
            b"Content-Type: application/x-other\r\nHost: other\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        ),
        STORED,
        STORED_AND_CLOSED,
        REFUSED,
    ),
    case("with a trailer that spells a request", post_chunked(*CHUNKS[:2], b"\r\n0\r\n", DELETE), REFUSED),
    case("with data that spells requests", post_chunked(b"%x\r\n" % len(DELETE), DELETE, b"\r\n0\r\n\r\n"), INVALID),
    case("without an end", post_chunked(*CHUNKS[:2], b"\r\n"), REFUSED),
    case("with more data than its size", post_chunked(b"11\r\n", EVENT, b"\r\n0\r\n\r\n"), REFUSED),
    case("with less data than its size", post_chunked(b"14\r\n", EVENT, b"\r\n0\r\n\r\n"), REFUSED),
    *(
        case(f"with {size!r} for a size", post_chunked(size + b"\r\n", EVENT, b"\r\n0\r\n\r\n"), REFUSED)
        for size in malformed.CHUNK_SIZES
    ),
    case("with a bare LF after its data", post_chunked(b"12\r\n", EVENT, b"\n0\r\n\r\n"), REFUSED),
]

UNDOABLE = [REFUSED, Outcome((501,), stays=False)]
CODINGS = [
    *(case(f"{coding!r}", of_coding(coding), *UNDOABLE) for coding in malformed.CODINGS),
    case("chunked in two headers", of_coding("chunked", "chunked"), REFUSED),
    case(
        "chunked in HTTP/1.0",
        raw(
            f"POST /feeds/{FEED} HTTP/1.0", "Transfer-Encoding: chunked", "Connection: keep-alive", body=BODY_IN_CHUNKS
        ),
        REFUSED,
        STORED_AND_CLOSED,
    ),
]

LENGTHS = [
    case("with spaces and tabs around it", of_length(f" \t {SIZE} \t "), STORED, proxied=False),
    case("with zeros before it", of_length(f" 000{SIZE}"), STORED),
    case("twice, and equal", of_length(f" {SIZE}", f" {SIZE}"), STORED, REFUSED),
    case("twice in a list, and equal", of_length(f" {SIZE}, {SIZE}"), STORED, REFUSED),
    case("twice, the second shorter", of_length(f" {SIZE + len(DELETE)}", f" {SIZE}", body=POISONED), REFUSED),
    case("twice, the second longer", of_length(f" {SIZE}", f" {SIZE + len(DELETE)}", body=POISONED), REFUSED),
    case("twice, the second 0", of_length(f" {SIZE}", " 0"), REFUSED),
    case("twice, the second empty", of_length(f" {SIZE}", " "), REFUSED),
    *(case(f"{value!r}", of_length(value), REFUSED) for value in malformed.LENGTHS),
]

BOTH = [
    case(name, raw(*TO_FEED, *headers, body=BODY_IN_CHUNKS + DELETE), REFUSED, STORED_AND_CLOSED)
    for name, headers in {
        "Content-Length first": (f"Content-Length: {len(BODY_IN_CHUNKS)}", "Transfer-Encoding: chunked"),
        "Transfer-Encoding first": ("Transfer-Encoding: chunked", f"Content-Length: {len(BODY_IN_CHUNKS)}"),
        "a length that is too short": ("Content-Length: 4", "Transfer-Encoding: chunked"),
        "a length that covers what follows": (
            "Transfer-Encoding: chunked",
            f"Content-Length: {len(BODY_IN_CHUNKS + DELETE)}",
        ),
        "a length of 0": ("Content-Length: 0", "Transfer-Encoding: chunked"),
    }.items()
] + [
    case(
        f"Content-Length with {coding!r}, which is not chunked",
        raw(*TO_FEED, f"Content-Length: {SIZE}", f"Transfer-Encoding: {coding}", body=EVENT),
        *UNDOABLE,
    )
    for coding in ("identity", "xchunked", "")
]


@pytest.mark.parametrize("each", WHOLE, ids=lambda each: each.name)
def test_body_of_a_length_is_read_to_its_end_and_never_executed(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("front", ["direct", "nginx piecewise"], indirect=True)
@pytest.mark.parametrize("each", LATE, ids=lambda each: each.name)
def test_body_that_comes_after_the_refusal_of_its_request_is_never_executed(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", CHUNKED, ids=lambda each: each.name)
def test_body_in_chunks_is_read_to_its_end_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", CODINGS, ids=lambda each: each.name)
def test_transfer_coding_that_the_front_cannot_undo_is_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", LENGTHS, ids=lambda each: each.name)
def test_content_length_is_one_number_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", BOTH, ids=lambda each: each.name)
def test_request_with_a_length_and_a_transfer_coding_ends_its_connection(front: Front, each: Case) -> None:
    front.check(each)


def test_size_of_a_chunk_beyond_64_bits_is_not_cut_short(front: Front) -> None:
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(post_chunked(b"10000000000000012\r\n", EVENT, b"\r\n0\r\n\r\n") + DELETE, feed))
        connection.half_close()
        assert all(answer.status >= 400 for answer in connection.answers())
    assert front.ids(feed) == ()
