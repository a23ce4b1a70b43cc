"""A front that implements no other protocol ignores every offer of one (RFC 9110, 7.8), and reads the body."""

from collections.abc import Callable, Sequence

import pytest

from tests.conformance.http.front import (
    ANSWERED,
    DELETE,
    EVENT,
    STORED,
    ByByte,
    Front,
    Outcome,
    Step,
    case,
    event,
    get,
    named,
    post,
    post_chunked,
)
from tests.conformance.http.wire import ANSWER_SECONDS_MAX

SETTINGS = "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", SETTINGS)
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

OFFERS = {
    "h2c as Java's HttpClient and curl --http2 offer it": H2C,
    "h2c without its settings": ("Connection: Upgrade", "Upgrade: h2c"),
    "websocket with a key": (*WEBSOCKET, KEY),
    "websocket without a key": WEBSOCKET,
    "TLS": ("Connection: Upgrade", "Upgrade: TLS/1.2"),
    "a protocol nobody knows": ("Connection: Upgrade", "Upgrade: teleport/7"),
    "several protocols in one header": ("Connection: Upgrade", "Upgrade: h2c, websocket, TLS/1.3"),
    "several protocols in several headers": ("Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"),
    "Upgrade among other connection options": ("Connection: keep-alive, upgrade", "Upgrade: h2c"),
    "Upgrade without Connection": ("Upgrade: h2c",),
    "Connection: Upgrade without Upgrade": ("Connection: Upgrade",),
    "an empty Upgrade": ("Connection: Upgrade", "Upgrade:"),
}
HANDED_ON = (
    *("h2c as Java's HttpClient and curl --http2 offer it", "websocket with a key", "a protocol nobody knows"),
    "Upgrade without Connection",
)
"""The configuration of nginx makes the others the same as one of these."""

REQUESTS: dict[str, Callable[[Sequence[str]], tuple[Step | Sequence[Step], Outcome]]] = {
    "GET": lambda offer: (get(*offer), ANSWERED),
    "POST, body in the same segment": lambda offer: (post(*offer), STORED),
    "POST, body in a later segment": lambda offer: ([post(*offer)[: -len(EVENT)], EVENT], STORED),
    "POST, byte by byte": lambda offer: (ByByte(post(*offer)), STORED),
    "POST in chunks": lambda offer: (
        post_chunked(b"12\r\n", EVENT, b"\r\n0\r\n\r\n", headers=(*offer, "Transfer-Encoding: chunked")),
        STORED,
    ),
    "POST, a body that spells a request": lambda offer: (
        [post(*offer, body=DELETE)[: -len(DELETE)], DELETE],
        Outcome((422,)),
    ),
    "POST, and another one behind it": lambda offer: (
        post(*offer, "X-Flow-Id: request-1") + post("X-Flow-Id: request-2", body=event(2)),
        Outcome((200, 200), (1, 2)),
    ),
    "GET, and a POST behind it": lambda offer: (
        get(*offer, "X-Flow-Id: request-1") + post("X-Flow-Id: request-2"),
        Outcome((200, 200), (1,)),
    ),
}


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_offer_of_an_upgrade_changes_nothing(direct: Front, request_name: str, offer: str) -> None:
    steps, outcome = REQUESTS[request_name](OFFERS[offer])
    direct.check(case(request_name, steps, outcome))


@pytest.mark.parametrize("front", ["nginx", "nginx piecewise"], indirect=True)
@pytest.mark.parametrize("offer", HANDED_ON)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_offer_of_an_upgrade_that_a_proxy_hands_on_changes_nothing(front: Front, request_name: str, offer: str) -> None:
    steps, outcome = REQUESTS[request_name](OFFERS[offer])
    front.check(case(request_name, steps, outcome))


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("follows", [SETTINGS_FRAME, SETTINGS_FRAME + DELETE, DELETE], ids=["frame", "both", "request"])
def test_bytes_behind_an_http2_preface_are_never_executed_as_http_1(front: Front, follows: bytes) -> None:
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(PREFACE + follows, feed))
        assert connection.hears_within(ANSWER_SECONDS_MAX), "neither an answer nor an end"
        connection.half_close()
        said = connection.rest()
    assert b"smuggled" not in said
    assert front.ids(feed) == ()


def test_http2_preface_in_the_middle_of_a_connection_is_refused(front: Front) -> None:
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(get(), feed) + PREFACE + named(DELETE, feed))
        assert connection.answer().status == 200
        connection.half_close()
        said = connection.rest()
    assert b"smuggled" not in said
    assert front.ids(feed) == ()
