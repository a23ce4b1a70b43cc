import json

import msgspec

from penstock.cli.event_line import feed_line, people_line
from penstock.cli.lines import is_feed_line
from penstock.client import FeedEvent
from penstock.testing.factories import a_feed_event

HEADERS = {"ce_time": "2013-01-01T00:00:00Z"}
EVENT = a_feed_event('{"n": 1.0}', partition=2, headers=HEADERS, offset=41, key="k\x1b[2J")
FOREIGN: FeedEvent = FeedEvent(0, msgspec.Raw(b"{}"))


def test_feed_line_keeps_the_bytes_of_the_event_and_has_what_is_known_of_it() -> None:
    line = feed_line(EVENT, headers=False)

    assert line.endswith(',"data":{"n": 1.0}}\n')
    assert json.loads(line) == {
        "partition": 2, "offset": 41, "received_at": "2023-11-14T22:13:20.000000Z", "key": "k\x1b[2J",
        "data": {"n": 1.0},
    }  # fmt: skip
    assert feed_line(FOREIGN, headers=False) == '{"partition":0,"data":{}}\n'


def test_line_of_tail_is_a_feed_line_and_an_event_with_some_of_its_members_is_none() -> None:
    assert is_feed_line(feed_line(EVENT, headers=True).encode())
    assert not is_feed_line(b'{"data":{},"offset":41}')
    assert not is_feed_line(b'{"data":{},"partition":0,"offset":41,"received_at":"x","topic":"a"}')


def test_feed_line_has_headers_on_request() -> None:
    assert json.loads(feed_line(EVENT, headers=True))["headers"]["ce_time"] == "2013-01-01T00:00:00Z"
    assert "headers" not in json.loads(feed_line(FOREIGN, headers=True))


def test_line_for_people_has_no_control_characters() -> None:
    line = people_line(EVENT, headers=False)

    assert line == '  2      41  2023-11-14T22:13:20.000Z  k\N{REPLACEMENT CHARACTER}[2J  {"n": 1.0}\n'
    obeyed = {"a": "\x9b31m\u202eå"}
    event = FeedEvent(0, msgspec.Raw(msgspec.json.encode(obeyed)), obeyed)
    assert people_line(event, headers=True) == '  0  -  {"a":"\\u009b31m\\u202eå"} {"a":"\\u009b31m\\u202eå"}\n'
