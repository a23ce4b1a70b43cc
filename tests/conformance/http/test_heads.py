"""Request lines and headers (RFC 9112, 2 to 5): a head that two parties can read in two ways is refused."""

import json

import pytest

from tests.conformance.http import malformed
from tests.conformance.http.front import (
    ANSWERED,
    DELETE,
    EVENT,
    FEED,
    REFUSED,
    STORED,
    Case,
    Front,
    Outcome,
    case,
    event,
    get,
    named,
    post,
    post_chunked,
    problem,
    raw,
)
from tests.exhaustive import exhaustive

READ = f"/feeds/{FEED}?n=1&cursor0=_first"
POST = (f"POST /feeds/{FEED} HTTP/1.1", "Host: hub")
LENGTH = f"Content-Length: {len(EVENT)}"
CLOSED = Outcome((), stays=False)

TARGET_BYTES_MAX = 524_288
HEADERS_BYTES_MAX = 65_536
PARTITIONS_MAX = 4_096


def refused(*statuses: int) -> list[Outcome]:
    """Return refusals with one of these statuses, which end the connection."""
    return [Outcome((status,), stays=False) for status in statuses]


def refused_alone(*statuses: int) -> list[Outcome]:
    """Return refusals after which another request can follow, since it is certain where this one ends."""
    return [*refused(*statuses), *(Outcome((status,)) for status in statuses)]


def post_with(line: bytes | str) -> bytes:
    """Return a publish that has this line before its length."""
    return raw(*POST, line, LENGTH, body=EVENT)


def read(line: bytes | str, *headers: str) -> bytes:
    """Return a request that begins with this line."""
    return raw(line, *(headers or ["Host: hub"]))


FIELDS = [
    *(case(f"{line!r}", post_with(line), REFUSED) for line in malformed.LINES),
    *(
        (each if character in malformed.NAME_BYTES_OF_EACH_KIND else exhaustive(each, id=each.name))
        for character in malformed.NAME_BYTES
        for each in [case(f"{character!r} in a name", post_with(b"X-" + character + b"Note: a"), REFUSED)]
    ),
    *(
        case(f"{character!r} in a value", post_with(b"X-Note: a" + character + b"b"), REFUSED)
        for character in malformed.VALUE_BYTES
    ),
    *(
        case(f"{character!r} in a value", post_with(b"X-Note: a" + character + b"b"), STORED, REFUSED)
        for character in malformed.DOUBTFUL_VALUE_BYTES
    ),
    case("space before the colon of the length", raw(*POST, f"Content-Length : {len(EVENT)}", body=EVENT), REFUSED),
    case("a tab in a value", post_with("X-Note: a\tb"), STORED),
    case("bytes beyond ASCII in a value", post_with("X-Note: åøæ"), STORED),
    case("an empty value", post_with("X-Note:"), STORED),
    case("a value that looks like a request", post_with("X-Note: DELETE /event-types/x HTTP/1.1"), STORED),
    case("a first header that begins with a space", raw(POST[0], " Host: hub", LENGTH, body=EVENT), REFUSED),
    case("bare CR as the end of the head", raw(*POST, LENGTH)[:-2] + b"\r\r\n" + EVENT, REFUSED),
]

FOLDED = [
    case("a note", post_with("X-Note: a\r\n b"), STORED, REFUSED),
    case("a note, by a tab", post_with("X-Note: a\r\n\tContent-Length: 0"), STORED, REFUSED),
    case("a note, by a request", post_with("X-Note: a\r\n DELETE /event-types/x HTTP/1.1"), STORED, REFUSED),
    case("a length", raw(*POST, "Content-Length:", f" {len(EVENT)}", body=EVENT), STORED, REFUSED),
    case("a length, by more of it", raw(*POST, "Content-Length: 1", " 8", body=EVENT), REFUSED),
    case("the last line, by nothing", raw(*POST, LENGTH, " ", body=EVENT), STORED, REFUSED),
]

LF_ONLY = [
    case("everywhere", post().replace(b"\r\n", b"\n"), STORED, REFUSED),
    case("after the request line", post().replace(b"\r\n", b"\n", 1), STORED, REFUSED),
    case("as the empty line", raw(*POST, LENGTH)[:-2] + b"\n" + EVENT, STORED, REFUSED),
]

REQUEST_LINES = [
    case("after an empty line", b"\r\n" + get(), ANSWERED),
    case("with two spaces", read(f"GET  {READ} HTTP/1.1"), ANSWERED, REFUSED),
    case("with a tab", read(f"GET\t{READ} HTTP/1.1"), ANSWERED, REFUSED),
    case("with a space before it", read(f" GET {READ} HTTP/1.1"), ANSWERED, REFUSED),
    case("with a space behind it", read(f"GET {READ} HTTP/1.1 "), ANSWERED, REFUSED),
    case("with a space in its target", read("GET /version /x HTTP/1.1"), REFUSED),
    *(
        case(f"with {character!r} in its target", read(b"GET /version?" + character + b" HTTP/1.1"), REFUSED)
        for character in (b"\0", b"\x01", b"\r", b"\x7f")
    ),
    case("without a target", read("GET HTTP/1.1"), REFUSED),
    case("of a protocol in small letters", read("GET /version http/1.1"), REFUSED, *refused(505)),
    *(case(f"of {version}", read(f"GET /version {version}"), *refused(400, 505)) for version in malformed.VERSIONS),
    case(
        "of a method that nobody knows",
        read(f"BREW {READ} HTTP/1.1"),
        *refused(400, 405, 501),
        Outcome((405,)),
        Outcome((501,)),
    ),
    case(
        "of a method in small letters",
        read(f"get {READ} HTTP/1.1"),
        *refused(400, 405, 501),
        Outcome((405,)),
        Outcome((501,)),
    ),
    case("of a method that is no token", read(f"G(T {READ} HTTP/1.1"), *refused(400, 501)),
    case("that is the beginning of TLS", bytes.fromhex("16030100a5010000a10303"), REFUSED, CLOSED),
]

VERSIONLESS = [
    case("and no more", b"GET /version\r\n", REFUSED, CLOSED),
    case("and headers", read("GET /version"), REFUSED, CLOSED),
]

TARGETS = [
    case("absolute", read(f"GET http://hub{READ} HTTP/1.1"), ANSWERED),
    case("absolute, of a publish", post(to=f"http://hub/feeds/{FEED}"), STORED),
    case(
        "absolute, of another host than Host", read(f"GET http://b{READ} HTTP/1.1"), ANSWERED, *refused_alone(400, 421)
    ),
    case("absolute, with a port", read(f"GET http://hub:8080{READ} HTTP/1.1"), ANSWERED, *refused_alone(400, 421)),
    case(
        "absolute, of another scheme", read("GET ftp://hub/version HTTP/1.1"), ANSWERED, *refused_alone(400, 404, 421)
    ),
    case("an authority, of CONNECT", read("CONNECT hub:443 HTTP/1.1"), *refused_alone(400, 404, 405, 501)),
    case("an authority, of GET", read("GET hub:443 HTTP/1.1"), *refused_alone(400, 404)),
    case(
        "an asterisk, of OPTIONS", read("OPTIONS * HTTP/1.1"), ANSWERED, Outcome((204,)), *refused_alone(400, 404, 405)
    ),
    case("an asterisk, of GET", read("GET * HTTP/1.1"), *refused_alone(400, 404)),
    case("a path without its slash", read("GET version HTTP/1.1"), *refused_alone(400, 404)),
    case("with a fragment", read("GET /version#part HTTP/1.1"), ANSWERED, *refused_alone(400, 404)),
    case("with escapes of a line's end", read("GET /version?x=%0d%0aHost:%20y HTTP/1.1"), ANSWERED),
]

HOSTS = [
    case("none", read(f"GET {READ} HTTP/1.1", "X-Note: a"), *refused_alone(400)),
    case("none, of a publish", raw(POST[0], LENGTH, body=EVENT), *refused_alone(400)),
    case("two", read(f"GET {READ} HTTP/1.1", "Host: hub", "Host: other"), *refused_alone(400)),
    case("two that are equal", read(f"GET {READ} HTTP/1.1", "Host: hub", "Host: hub"), *refused_alone(400)),
    case(
        "two in an absolute target's request",
        read(f"GET http://hub{READ} HTTP/1.1", "Host: hub", "Host: b"),
        *refused_alone(400),
    ),
    case("empty", read(f"GET {READ} HTTP/1.1", "Host:"), ANSWERED, *refused_alone(400)),
    case("with a port", read(f"GET {READ} HTTP/1.1", "Host: hub:8080"), ANSWERED),
    case("an IPv6 address", read(f"GET {READ} HTTP/1.1", "Host: [::1]:8080"), ANSWERED),
    *(
        case(f"{host!r}", read(f"GET {READ} HTTP/1.1", f"Host: {host}"), *refused_alone(400))
        for host in malformed.HOSTS
    ),
]


@pytest.mark.parametrize("each", FIELDS, ids=lambda each: each.name)
def test_header_line_that_has_two_meanings_is_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", FOLDED, ids=lambda each: each.name)
def test_header_that_goes_on_in_a_second_line_is_understood_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", LF_ONLY, ids=lambda each: each.name)
def test_line_that_ends_in_lf_alone_is_understood_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", REQUEST_LINES, ids=lambda each: each.name)
def test_request_line_is_understood_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", VERSIONLESS, ids=lambda each: each.name)
def test_request_of_http_0_9_is_refused(direct: Front, each: Case) -> None:
    direct.check(each)


@pytest.mark.parametrize("each", TARGETS, ids=lambda each: each.name)
def test_target_is_understood_in_each_form_or_refused(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", HOSTS, ids=lambda each: each.name)
def test_request_has_one_host(front: Front, each: Case) -> None:
    front.check(each)


SERVED = {
    "a target of the greatest length": get(to=f"{READ}&x=".ljust(TARGET_BYTES_MAX, "y")),
    "90 headers": get(*(f"X-Note-{number}: a" for number in range(90))),
    "headers of nearly the greatest length": get(f"X-Note: {'y' * (HEADERS_BYTES_MAX - 1_000)}"),
}
REFUSED_BY_SIZE = {
    "a target that is a byte too long": (414, get(to=f"{READ}&x=".ljust(TARGET_BYTES_MAX + 1, "y"))),
    "a target of 8 MiB": (414, get(to=f"{READ}&x=".ljust(8 << 20, "y"))),
    "a target without an end": (414, f"GET {READ}&x=".ljust(2 << 20, "y").encode()),
    "a header that is too long": (431, get(f"X-Note: {'y' * HEADERS_BYTES_MAX}")),
    "a header of 8 MiB": (431, get(f"X-Note: {'y' * (8 << 20)}")),
    "a header's name of 8 MiB": (431, get(f"{'x' * (8 << 20)}: a")),
    "100 000 headers": (431, get(*["X-Note: a"] * 100_000)),
    "trailers that are too long": (
        431,
        post_chunked(b"%x\r\n" % len(event(1)) + event(1) + b"\r\n0\r\n" + b"X-Note: a\r\n" * 10_000 + b"\r\n"),
    ),
    "a head without an end": (431, get(f"X-Note: {'y' * (2 << 20)}")[:-4]),
}


@pytest.mark.parametrize("name", SERVED)
def test_request_within_the_limits_of_its_head_is_served(front: Front, name: str) -> None:
    front.check(case(name, SERVED[name], ANSWERED))


@pytest.mark.parametrize("name", REFUSED_BY_SIZE)
def test_request_beyond_a_limit_of_its_head_is_refused_with_a_problem(direct: Front, name: str) -> None:
    status, request = REFUSED_BY_SIZE[name]
    feed = direct.create()
    with direct.connect() as connection:
        connection.send(named(request + DELETE, feed))
        problem(connection.answer(), status)
        assert connection.rest() == b"", "the connection goes on"
    assert direct.ids(feed) == ()


def test_reader_of_the_most_partitions_can_send_all_its_cursors(direct: Front) -> None:
    feed, cursors = direct.create(), dict.fromkeys(range(PARTITIONS_MAX), "_first")
    for _ in range(2):
        given = "".join(f"&cursor{partition}={cursor}" for partition, cursor in cursors.items())
        with direct.connect() as connection:
            connection.send(get("Connection: close", to=f"{feed.path}?n={PARTITIONS_MAX}{given}"))
            [answer] = connection.answers()
        assert answer.status == 200, answer
        cursors = {line["partition"]: line["cursor"] for line in map(json.loads, answer.body.splitlines())}
        assert len(cursors) == PARTITIONS_MAX


def test_malformed_request_is_answered_with_a_problem(direct: Front) -> None:
    with direct.connect() as connection:
        connection.send(post_with("X-Note : a"))
        problem(connection.answer(), 400)
        assert connection.rest() == b"", "the connection goes on"
