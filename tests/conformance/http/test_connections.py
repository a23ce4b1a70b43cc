"""Connections: their ends, and the order of their answers (RFC 9112, 9; RFC 9110, 9.3.2 and 10.1.1)."""

import pytest

from tests.conformance.http.front import (
    ANSWERED,
    DELETE,
    EVENT,
    FEED,
    SENTINEL,
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
    problem,
    raw,
)

READ = f"/feeds/{FEED}?n=1&cursor0=_first"
EXPECT = "Expect: 100-continue"
BODY_BYTES_REFUSED = 60 << 20


def numbered(*requests: bytes) -> list[bytes]:
    """Return these requests, each with a flow id that tells its place."""
    return [
        each.replace(b"Host: hub\r\n", b"Host: hub\r\nX-Flow-Id: request-%02d\r\n" % place)
        for place, each in enumerate(requests)
    ]


PIPELINES = [
    case("GETs", b"".join(numbered(*[get()] * 20)), Outcome((200,) * 20)),
    case("POSTs", b"".join(numbered(*(post(body=event(i)) for i in range(20)))), Outcome((200,) * 20, (*range(20),))),
    case(
        "POSTs in chunks",
        b"".join(numbered(*(post_chunked(b"12\r\n", event(i), b"\r\n0\r\n\r\n") for i in range(9)))),
        Outcome((200,) * 9, (*range(9),)),
    ),
    case(
        "GETs and POSTs, byte by byte",
        ByByte(b"".join(numbered(get(), post(), get(to="/nowhere"), post(body=event(2)), get()))),
        Outcome((200, 200, 404, 200, 200), (1, 2)),
    ),
    case(
        "a request behind one that is refused by the hub",
        b"".join(numbered(post(body=b"no JSON"), post())),
        Outcome((422, 200), (1,)),
    ),
    case("a publish and who reads it", b"".join(numbered(post(), get(to=f"{READ}&wait=5"))), Outcome((200, 200), (1,))),
    case(
        "a request behind one that ends the connection",
        b"".join(numbered(post("Connection: close"), post(body=event(2)))),
        STORED_AND_CLOSED,
    ),
    case(
        "no request behind a publish",
        post() + b"\0\1\2\r\n\r\n",
        Outcome((200, 400), (1,), stays=False),
        STORED_AND_CLOSED,
    ),
    case(
        "a malformed request behind a publish",
        post() + raw(f"GET {READ} HTTP/1.1", "Host : hub"),
        Outcome((200, 400), (1,), stays=False),
        STORED_AND_CLOSED,
    ),
]

OLD = [
    case("a read", raw(f"GET {READ} HTTP/1.0"), Outcome((200,), stays=False)),
    case(
        "a read that is to stay",
        raw(f"GET {READ} HTTP/1.0", "Connection: keep-alive"),
        ANSWERED,
        Outcome((200,), stays=False),
    ),
    case(
        "a short answer that is to stay",
        raw("GET /version HTTP/1.0", "Connection: keep-alive"),
        ANSWERED,
        Outcome((200,), stays=False),
    ),
    case(
        "a publish", raw(f"POST /feeds/{FEED} HTTP/1.0", f"Content-Length: {len(EVENT)}", body=EVENT), STORED_AND_CLOSED
    ),
    case(
        "a publish that is to stay",
        raw(f"POST /feeds/{FEED} HTTP/1.0", "Connection: keep-alive", f"Content-Length: {len(EVENT)}", body=EVENT),
        STORED,
        STORED_AND_CLOSED,
    ),
    case(
        "a publish that offers an upgrade, which it cannot",
        raw(
            f"POST /feeds/{FEED} HTTP/1.0",
            "Connection: Upgrade",
            "Upgrade: h2c",
            f"Content-Length: {len(EVENT)}",
            body=EVENT,
        ),
        STORED_AND_CLOSED,
    ),
    case(
        "a publish that expects to be told to go on, which it is not",
        raw(f"POST /feeds/{FEED} HTTP/1.0", EXPECT, f"Content-Length: {len(EVENT)}", body=EVENT),
        STORED_AND_CLOSED,
    ),
    case(
        "a read of which no event type is left",
        raw("GET /feeds/nobody?n=1&cursor0=_first HTTP/1.0"),
        Outcome((404,), stays=False),
    ),
]

EXPECTING = [
    case("a publish whose body waits", [post(EXPECT)[: -len(EVENT)], Await(100), EVENT], STORED),
    case("a publish whose body does not wait", post(EXPECT), STORED),
    case("in other letters", [post("expect: 100-Continue")[: -len(EVENT)], Await(100), EVENT], STORED),
    case(
        "a publish in chunks",
        [post_chunked(headers=(EXPECT, "Transfer-Encoding: chunked")), Await(100), b"12\r\n", EVENT, b"\r\n0\r\n\r\n"],
        STORED,
    ),
    case(
        "with an offer of an upgrade, as Java's HttpClient sends both",
        [post(EXPECT, "Connection: Upgrade", "Upgrade: h2c")[: -len(EVENT)], Await(100), EVENT],
        STORED,
    ),
    case("a read, which has no body", get(EXPECT), ANSWERED),
]


@pytest.mark.parametrize("each", PIPELINES, ids=lambda each: each.name)
def test_pipelined_requests_are_answered_in_their_order(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("each", OLD, ids=lambda each: each.name)
def test_client_of_http_1_0_gets_an_answer_that_it_can_read(front: Front, each: Case) -> None:
    for answer in front.check(each):
        assert "transfer-encoding" not in answer.headers


def test_client_of_http_1_0_is_not_told_to_go_on(direct: Front) -> None:
    feed = direct.create()
    head = raw(f"POST /feeds/{feed.name} HTTP/1.0", EXPECT, f"Content-Length: {len(EVENT)}")
    with direct.connect() as connection:
        connection.send(head)
        assert direct.ids(feed) == ()  # By now the hub has read the head.
        connection.send(EVENT)
        answer = connection.answer()

    assert (answer.status, answer.interim, direct.ids(feed)) == (200, False, (1,))


@pytest.mark.parametrize("each", EXPECTING, ids=lambda each: each.name)
def test_client_that_expects_100_is_told_to_go_on(front: Front, each: Case) -> None:
    front.check(each)


@pytest.mark.parametrize("to", [f"/feeds/{FEED}", f"/event-types/{FEED}/events", "/event-types"])
@pytest.mark.parametrize("headers", [(), (EXPECT,)], ids=["at once", "expecting 100"])
def test_body_that_is_too_long_is_refused_before_it_is_sent(direct: Front, headers: tuple[str, ...], to: str) -> None:
    feed = direct.create()
    with direct.connect() as connection:
        head = raw(f"POST {to} HTTP/1.1", "Host: hub", *headers, f"Content-Length: {BODY_BYTES_REFUSED}")
        connection.send(named(head, feed))
        answer = connection.answer()
        problem(answer, 413)
        assert not answer.interim, "told to go on, and then refused"
        connection.send(named(DELETE, feed))  # It is a part of the body, or nothing at all.
        connection.half_close()
        assert connection.answers() == []
    assert direct.ids(feed) == ()


def test_head_is_answered_without_a_body_on_every_route(front: Front) -> None:
    paths = front.http.get("/openapi.json").json()["paths"]
    feed = front.create()
    fill = {"event_type": feed.name, "version": "1", "partition": "0", "id": "default"}
    with front.connect() as connection:
        for path in sorted(path for path, methods in paths.items() if "get" in methods):
            target = path
            for name in [each["name"] for each in paths[path]["get"]["parameters"] if each["in"] == "path"]:
                target = target.replace(f"{{{name}}}", fill.get(name, "unknown"))
            connection.send(raw(f"HEAD {target} HTTP/1.1", "Host: hub", f"X-Flow-Id: HEAD {target}"))
            answer = connection.answer(to_head=True)
            assert answer.flow == f"HEAD {target}"
            assert answer.status in (200, 400, 404), (target, answer)
        connection.send(SENTINEL)
        assert [answer.flow for answer in connection.answers()] == ["sentinel"]


def test_answers_with_204_have_no_body(front: Front) -> None:
    block = "/settings/blacklist/PRODUCER_ET/nobody"
    with front.connect() as connection:
        connection.send(*(raw(f"{method} {block} HTTP/1.1", "Host: hub") for method in ("PUT", "DELETE")), SENTINEL)
        answers = connection.answers()
    assert [answer.status for answer in answers] == [204, 204, 200]
    assert [answer.body for answer in answers[:2]] == [b"", b""]


def test_publish_of_a_client_that_sends_no_more_is_acknowledged(direct: Front) -> None:
    feed = direct.create()
    with direct.connect() as connection:
        connection.send(named(post(), feed))
        connection.half_close()
        assert [answer.status for answer in connection.answers()] == [200]
    assert direct.ids(feed) == (1,)


def test_reader_that_sends_no_more_gets_a_whole_answer_or_none(front: Front) -> None:
    """Nginx takes it for one that has left, and may cut the answer, which the reader notices by its missing end."""
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(get(), feed))
        connection.half_close()
        try:
            statuses = [answer.status for answer in connection.answers()]
        except AssertionError as error:
            if front.handed_on is None or "ended in the middle" not in str(error):
                raise
            statuses = []
        assert statuses in ([], [200])


def test_body_of_head_is_not_executed(front: Front) -> None:
    feed = front.create()
    with front.connect() as connection:
        request = raw("HEAD /version HTTP/1.1", "Host: hub", f"Content-Length: {len(DELETE)}", body=DELETE)
        connection.send(named(request, feed) + SENTINEL)
        assert connection.answer(to_head=True).status == 200
        assert [answer.flow for answer in connection.answers()] == ["sentinel"]
    assert front.ids(feed) == ()


CUT = {
    "in its length": post(body=event(1) + event(2))[: -len(event(2))],
    "before the first byte": post()[: -len(EVENT)],
    "before the last byte": post()[:-1],
    "between chunks": post_chunked(b"12\r\n", EVENT, b"\r\n"),
    "before the end of the last chunk": post_chunked(b"12\r\n", EVENT, b"\r\n0\r\n"),
    "in its length, with an upgrade": post("Connection: Upgrade", "Upgrade: h2c", body=event(1) + event(2))[
        : -len(EVENT)
    ],
}


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("end", ["half_close", "reset"])
def test_body_that_breaks_off_is_not_stored(front: Front, name: str, end: str) -> None:
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(CUT[name], feed))
        if end == "reset":
            connection.reset()
        else:
            connection.half_close()
            assert all(answer.status >= 400 for answer in connection.answers())
    assert front.ids(feed) == ()
