import pytest

from penstock.wire.nakadi_batches import BATCHES, BatchLine

CURSOR = b'"cursor":{"partition":"0","offset":"001-0001-000000000000000004","event_type":"a.b","cursor_token":"t"}'


def line(rest: bytes = b"") -> BatchLine:
    return BATCHES.decode(b"{" + CURSOR + rest + b"}")


def test_events_are_handed_on_byte_for_byte() -> None:
    events = line(rb',"events":[{"n" : 1.50,"t":"\u00e4"},{"n":1,"n":2}]').events

    assert [bytes(each) for each in events or ()] == [rb'{"n" : 1.50,"t":"\u00e4"}', b'{"n":1,"n":2}']


def test_a_sign_of_life_has_no_events_and_gives_no_reason() -> None:
    found = line()

    assert (found.events, found.debug, found.reason) == (None, None, None)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b',"info":{"debug":"Commit timeout reached"}', "Commit timeout reached"),
        (b',"info":{"debug":"Stream started; skipped events due to retention time passed, count: 3"}', None),
        (b',"events":[{}],"info":{"debug":"Stream parameters are causing overflow"}', None),
        (b',"info":{}', None),
    ],
)
def test_a_line_without_events_says_why_the_stream_ends(rest: bytes, reason: str | None) -> None:
    assert line(rest).reason == reason
