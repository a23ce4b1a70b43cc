import json

import msgspec

from penstock.cli.event_line import feed_line, people_line
from penstock.client import FeedEvent

EVENT = FeedEvent(2, msgspec.Raw(b'{"n": 1.0}'), {"ce_partitionkey": "k\x1b[2J", "ce_time": "2013-01-01T00:00:00Z"})


def test_feed_line_keeps_the_bytes_of_the_event() -> None:
    assert feed_line(EVENT, headers=False) == '{"partition":2,"data":{"n": 1.0}}\n'


def test_feed_line_has_headers_on_request() -> None:
    assert json.loads(feed_line(EVENT, headers=True))["headers"]["ce_time"] == "2013-01-01T00:00:00Z"
    assert "headers" not in json.loads(feed_line(FeedEvent(0, msgspec.Raw(b"{}")), headers=True))


def test_line_for_people_has_no_control_characters() -> None:
    line = people_line(EVENT, headers=False)

    assert line == '  2  2013-01-01T00:00:00Z  k\N{REPLACEMENT CHARACTER}[2J  {"n": 1.0}\n'
    obeyed = {"a": "\x9b31m\u202eå"}
    event = FeedEvent(0, msgspec.Raw(msgspec.json.encode(obeyed)), obeyed)
    assert people_line(event, headers=True) == '  0  -  {"a":"\\u009b31m\\u202eå"} {"a":"\\u009b31m\\u202eå"}\n'
