"""A front that implements no other protocol ignores every offer of one (RFC 9110, 7.8), and reads the body."""

import pytest

from tests.conformance.http.front import (
    ANSWERED,
    DELETE,
    EVENT,
    STORED,
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
)

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
"""The snippet makes the others the same as one of these."""


def cases(offer: str) -> list[Case]:
    """Return what a client does with an offer."""
    headers = OFFERS[offer]
    return [
        case(f"GET with {offer}", get(*headers), ANSWERED),
        case(f"POST with {offer}, body in the same segment", post(*headers), STORED),
        case(f"POST with {offer}, body in a later segment", [post(*headers)[: -len(EVENT)], EVENT], STORED),
        case(f"POST with {offer}, byte by byte", ByByte(post(*headers)), STORED),
        case(
            f"POST with {offer}, in chunks",
            post_chunked(b"12\r\n", EVENT, b"\r\n0\r\n\r\n", headers=(*headers, "Transfer-Encoding: chunked")),
            STORED,
        ),
        case(
            f"POST with {offer}, a body that spells a request",
            [post(*headers, body=DELETE)[: -len(DELETE)], DELETE],
            Outcome((422,)),
        ),
        case(
            f"POST with {offer}, behind it another one",
            post(*headers, "X-Flow-Id: request-1") + post("X-Flow-Id: request-2", body=event(2)),
            Outcome((200, 200), (1, 2)),
        ),
        case(
            f"POST behind a GET with {offer}",
            get(*headers, "X-Flow-Id: request-1") + post("X-Flow-Id: request-2"),
            Outcome((200, 200), (1,)),
        ),
    ]


@pytest.mark.parametrize("each", [each for offer in OFFERS for each in cases(offer)], ids=lambda each: each.name)
def test_request_that_offers_an_upgrade_is_served_as_if_it_did_not(direct: Front, each: Case) -> None:
    direct.check(each)


@pytest.mark.parametrize("front", ["nginx", "nginx piecewise"], indirect=True)
@pytest.mark.parametrize("each", [each for offer in HANDED_ON for each in cases(offer)], ids=lambda each: each.name)
def test_offer_that_a_proxy_hands_on_changes_nothing(front: Front, each: Case) -> None:
    front.check(each)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("follows", [SETTINGS_FRAME, SETTINGS_FRAME + DELETE, DELETE], ids=["frame", "both", "request"])
def test_http2_preface_is_spoken_or_refused_and_what_follows_is_never_taken_for_http1(
    front: Front, follows: bytes
) -> None:
    feed = front.create()
    with front.connect() as connection:
        connection.send(named(PREFACE + follows, feed))
        assert connection.hears_within(20), "neither an answer nor an end"
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
