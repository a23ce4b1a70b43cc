"""Whatever follows a request that a front cannot frame for certain is never executed (RFC 9112, 6.3 and 11.2)."""

from itertools import pairwise
from typing import Final

import hypothesis
from hypothesis import Phase
from hypothesis import strategies as st

from tests.conformance.http import malformed
from tests.conformance.http.front import DELETE, EVENT, FEED, Front, named, published, raw
from tests.exhaustive import examples

SILENCE_SECONDS: Final = 0.1
"""A front that is silent for so long waits for more bytes; the client closes its side then."""
TARGETS: Final = (f"POST /feeds/{FEED}", "POST /nowhere", "GET /version", "PUT /version")
OTHERS: Final = (
    *(b"Connection: keep-alive", b"Connection: Upgrade\r\nUpgrade: h2c", b"Connection: Upgrade\r\nUpgrade: websocket"),
    *(b"Expect: 100-continue", b"Content-Type: application/x-ndjson"),
)
BODIES: Final = (EVENT + DELETE, DELETE + EVENT)
RIGHT: Final = b"Content-Length: %d" % len(BODIES[0])
CHUNKED: Final = b"Transfer-Encoding: chunked"

Framed = tuple[list[bytes], bytes]
"""Headers that say where a body ends, at least one of which is wrong, and the body."""


def in_any_case(name: bytes) -> st.SearchStrategy[bytes]:
    """Draw a header's name in letters of any case."""
    return st.sampled_from([name, name.lower(), name.upper()])


@st.composite
def wrong_length(draw: st.DrawFn) -> Framed:
    """Draw one length that is none, or two that differ."""
    name, body = draw(in_any_case(b"Content-Length")), draw(st.sampled_from(BODIES))
    none = name + b":" + draw(st.sampled_from(malformed.LENGTHS))
    other = name + b": %d" % draw(st.integers(0, len(body) - 1))
    return draw(st.sampled_from([[none], [RIGHT, none], [RIGHT, other]])), body


@st.composite
def wrong_coding(draw: st.DrawFn) -> Framed:
    """Draw a transfer coding that the front cannot undo, or one beside a length."""
    name, body = draw(in_any_case(b"Transfer-Encoding")), draw(st.sampled_from(BODIES))
    none = name + b": " + draw(st.sampled_from(malformed.CODINGS)).encode()
    length = draw(in_any_case(b"Content-Length")) + b": %d" % draw(st.integers(0, 500))
    headers = draw(st.sampled_from([[none], [RIGHT, none], [CHUNKED, none], [CHUNKED, length]]))
    return headers, draw(st.sampled_from([body, in_chunks(body), b"0\r\n\r\n" + DELETE]))


@st.composite
def wrong_chunks(draw: st.DrawFn) -> Framed:
    """Draw chunks that do not say where they end."""
    size, body = draw(st.sampled_from([*malformed.CHUNK_SIZES, b"10000000000000012"])), draw(st.sampled_from(BODIES))
    wrong = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
    return [CHUNKED], draw(st.sampled_from([wrong, b"12\r\n" + EVENT + b"\r\n" + wrong, in_chunks(body)[:-4]]))


@st.composite
def wrong_line(draw: st.DrawFn) -> Framed:
    """Draw a line that two parties read in two ways."""
    in_name = [b"X-" + byte + b"Note: a" for byte in malformed.NAME_BYTES]
    in_value = [b"X-Note: a" + byte + b"b" for byte in malformed.VALUE_BYTES]
    hosts = [b"Host: " + host.encode() for host in ("hub", *malformed.HOSTS)]
    return [draw(st.sampled_from([*malformed.LINES, *in_name, *in_value, *hosts])), RIGHT], draw(
        st.sampled_from(BODIES)
    )


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Draw a request that has to end its connection with one behind it that would do harm, and where it is cut."""
    headers, body = draw(st.one_of(wrong_length(), wrong_coding(), wrong_chunks(), wrong_line()))
    others = draw(st.lists(st.sampled_from(OTHERS), max_size=2, unique=True))
    lines = draw(st.permutations([b"Host: hub", *headers, *others]))
    sent = raw(f"{draw(st.sampled_from(TARGETS))} HTTP/1.1", *lines, body=body + DELETE)
    return sent, sorted(draw(st.sets(st.integers(1, len(sent) - 1), max_size=3)))


def in_chunks(body: bytes) -> bytes:
    """Return a body as one chunk and the last one."""
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def test_bytes_behind_a_request_that_cannot_be_framed_are_never_executed(front: Front) -> None:
    victims = [front.create()]

    @hypothesis.settings(max_examples=examples(30, 200), phases=[Phase.explicit, Phase.generate])
    @hypothesis.given(requests())
    def check(drawn: tuple[bytes, list[int]]) -> None:
        victim, (sent, cuts) = victims[-1], drawn
        had = front.ids(victim)
        sent = named(sent, victim)
        with front.connect() as connection:
            connection.send(*(sent[start:end] for start, end in pairwise([0, *cuts, len(sent)])))
            if not connection.hears_within(SILENCE_SECONDS):
                connection.half_close()
            answers = connection.answers()
        if front.deleted_by_proxy(victim):
            victims.append(front.create())
            return
        assert len(front.ids(victim)) - len(had) == published(answers), answers
        assert "smuggled" not in [answer.flow for answer in answers], answers
        assert front.handed_on or len(answers) <= 1, f"answered what followed: {answers}"

    check()
