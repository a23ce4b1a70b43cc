"""How streams and cursors of subscriptions are asked for and shown (the digest of Nakadi's, 5.4, 5.6 and 10)."""

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from penstock.core.delivery import Batch
from penstock.core.limits import NAKADI, PENSTOCK
from penstock.core.proof import ParkedSpan, parked_token_of, token_of
from penstock.core.subscription import Search
from penstock.errors import BadParameter, BadStreamParameter, PenstockError, UnusableCursor
from penstock.wire.nakadi_cursors import Extent
from penstock.wire.nakadi_subscriptions import (
    TIMEOUT_SECONDS,
    Given,
    GivenSubscriptionCursor,
    Lines,
    asked_of,
    committed_place,
    cursor_shown,
    given_by_body,
    given_by_query,
    list_pages,
    parse_cursors,
    parse_release,
    parse_subscription_reset,
    reset_place,
    results_shown,
)
from penstock.wire.query import Query

NAME = "order.placed"
EXTENTS = [Extent(epoch=1, floor=5, next_offset=42), Extent(epoch=1, floor=0, next_offset=0)]
SECRET = b"secret"


def extents(name: str) -> Sequence[Extent]:
    assert name == NAME
    return EXTENTS


def cursor(offset: Any = "7", partition: Any = "0", event_type: str | None = NAME) -> GivenSubscriptionCursor:
    return GivenSubscriptionCursor(partition, offset, event_type)


def no_time(name: str, text: str) -> NoReturn:
    raise BadParameter(parameter="offset", value=text, allowed="a time")


# What is asked for


def test_what_is_not_asked_for_is_as_nakadi_has_it() -> None:
    rules, wants = asked_of(Given(), PENSTOCK)

    assert (rules.max_uncommitted, rules.batch_limit, rules.stream_limit, rules.keep_alive_limit) == (10, 1, 0, 0)
    assert (rules.flush_s, rules.timespan_s, rules.commit_s, rules.bytes_max) == (30, 0, 60, 50_000_000)
    assert TIMEOUT_SECONDS[0] <= rules.timeout_s <= TIMEOUT_SECONDS[1]
    assert not math.isinf(rules.timeout_s)
    assert wants == ()


def test_what_is_asked_for_in_a_query_and_in_a_body_is_the_same() -> None:
    given = {
        "max_uncommitted_events": 9, "batch_limit": 8, "stream_limit": 7, "batch_flush_timeout": 6,
        "batch_timespan": 5, "stream_timeout": 4, "stream_keep_alive_limit": 3, "commit_timeout": 2,
    }  # fmt: skip
    by_query = given_by_query(Query("&".join(f"{name}={value}" for name, value in given.items()).encode()))

    assert by_query == given_by_body(json.dumps(given).encode()) == Given(**given)
    rules = asked_of(by_query, NAKADI).rules
    assert (rules.max_uncommitted, rules.batch_limit, rules.stream_limit, rules.flush_s) == (9, 8, 7, 6)
    assert (rules.timespan_s, rules.timeout_s, rules.keep_alive_limit, rules.commit_s) == (5, 4, 3, 2)


@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"partitions":[]}', b'{"partitions":null,"x":1}'], ids=repr)
def test_a_body_may_say_nothing(body: bytes) -> None:
    assert asked_of(given_by_body(body), PENSTOCK).wants == ()


@pytest.mark.parametrize(
    "text", ["x", "1.5", "", "+1", "--1", "99999999999", "2147483648", "-2147483648", "\u0661", "1e3"], ids=ascii
)
def test_a_number_in_a_query_is_one(text: str) -> None:
    with pytest.raises(BadParameter) as told:
        given_by_query(Query(b"batch_limit=" + text.encode()))
    assert told.value.fields["parameter"] == "batch_limit"


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"batch_limit":"1"}', b'{"batch_limit":1.5}', b'{"batch_limit":2147483648}', b"\xff",
     b'{"partitions":{}}'],
    ids=repr,
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(BadParameter):
        given_by_body(body)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_uncommitted_events", 0), ("batch_limit", 0), ("batch_limit", -1), ("stream_limit", -1),
     ("batch_flush_timeout", -1), ("batch_timespan", -1), ("stream_keep_alive_limit", -1), ("commit_timeout", -1)],
    ids=str,
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_refused(name: str, value: int) -> None:
    with pytest.raises(BadStreamParameter, match=f"{name} can't be lower than") as told:
        asked_of(Given(**{name: value}), PENSTOCK)
    assert (told.value.fields["parameter"], told.value.fields["value"]) == (name, value)


@pytest.mark.parametrize(("limits", "most"), [(PENSTOCK, 3_600), (NAKADI, 60)], ids=["by default", "strictly"])
def test_there_is_an_end_to_the_time_for_a_commit(limits: Any, most: int) -> None:
    assert asked_of(Given(commit_timeout=most), limits).rules.commit_s == most
    with pytest.raises(BadStreamParameter, match=f"can't be higher than {most}"):
        asked_of(Given(commit_timeout=most + 1), limits)


@pytest.mark.parametrize("asked", [None, 0, -1, 4_201], ids=repr)
def test_a_time_of_its_own_is_given_to_who_asks_for_none_or_too_much(asked: int | None) -> None:
    found = {asked_of(Given(stream_timeout=asked), PENSTOCK).rules.timeout_s for _ in range(9)}

    assert all(TIMEOUT_SECONDS[0] <= each <= TIMEOUT_SECONDS[1] for each in found)
    assert len(found) > 1, "those that began together do not end together"
    assert asked_of(Given(stream_timeout=4_200), PENSTOCK).rules.timeout_s == 4_200


def test_partitions_are_asked_for_by_number_or_text() -> None:
    body = b'{"partitions":[{"event_type":"a","partition":"1"},{"event_type":"b","partition":0}]}'

    assert asked_of(given_by_body(body), PENSTOCK).wants == (("a", 1), ("b", 0))
    other = b'{"partitions":[{"event_type":"b","partition":0},{"event_type":"a","partition":"1"}]}'
    assert asked_of(given_by_body(other), PENSTOCK).wants == (("b", 0), ("a", 1))


@pytest.mark.parametrize(
    "partitions",
    [[{}], [{"event_type": "a"}], [{"partition": "1"}], [{"event_type": "a", "partition": "x"}],
     [{"event_type": "a", "partition": -1}], [{"event_type": "a", "partition": "1" * 10}],
     [{"event_type": "a", "partition": "1"}, {"event_type": "a", "partition": 1}]],
    ids=["nothing", "no partition", "no event type", "no number", "below zero", "too long", "twice"],
)  # fmt: skip
def test_what_is_no_partition_is_refused(partitions: list[dict[str, Any]]) -> None:
    with pytest.raises(BadStreamParameter):
        asked_of(given_by_body(json.dumps({"partitions": partitions}).encode()), PENSTOCK)


# Cursors


@pytest.mark.parametrize(
    ("given", "position"),
    [(cursor("001-0001-000000000000000007"), 8), (cursor("7"), 8), (cursor("BEGIN"), 5), (cursor("-1"), 0),
     (cursor("7", partition=0), 8), (cursor("10000"), 10_001)],
    ids=["as it was sent", "a number", "the beginning", "before all", "a partition as a number", "beyond the end"],
)  # fmt: skip
def test_a_cursor_is_committed_by_the_last_event_before_it(given: GivenSubscriptionCursor, position: int) -> None:
    assert committed_place(given, extents, "items[0]") == ((NAME, 0), position)


@pytest.mark.parametrize(
    ("given", "at"),
    [(None, "items[0]"), (cursor(event_type=None), "items[0].event_type"), (cursor(offset=None), ""),
     (cursor(partition=None), ""), (cursor(partition="2"), ""), (cursor("x"), "")],
    ids=["null", "no event type", "no offset", "no partition", "another partition", "no offset's text"],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(given: GivenSubscriptionCursor | None, at: str) -> None:
    for read in (committed_place, lambda *asked: reset_place(*asked[:2], no_time, asked[2])):
        with pytest.raises(UnusableCursor) as told:
            read(given, extents, "items[0]")
        assert at in str(told.value)


@pytest.mark.parametrize("offset", ["-5", "END", "001-0007-000000000000000041"], ids=repr)
def test_a_commit_is_not_told_which_offsets_there_are_for_nobody_has_looked(offset: str) -> None:
    with pytest.raises(UnusableCursor) as told:
        committed_place(cursor(offset), extents, "items[0]")

    assert told.value.fields.keys() == {"partition", "offset", "reason"}
    assert str(told.value).startswith(f"offset {offset} of partition 0 cannot be used: it is ")


@pytest.mark.parametrize("offset", ["-5", "noon", "2026-11-20", "2026-11-20T10:00:00"], ids=repr)
def test_a_reset_to_what_is_no_offset_is_told_what_one_is(offset: str) -> None:
    with pytest.raises(UnusableCursor) as told:
        reset_place(cursor(offset), extents, no_time, "items[0]")

    assert told.value.fields == {
        "partition": "0",
        "offset": offset,
        "oldest_available_offset": "001-0001-000000000000000005",
        "newest_available_offset": "001-0001-000000000000000041",
        "reason": "it is neither of the form 001-0001-000000000000000041 nor BEGIN, END or a time such as "
        "2026-11-20T10:00:00Z",
    }


@pytest.mark.parametrize(
    ("offset", "position"),
    [("7", 8), ("BEGIN", 5), ("END", 42), ("end", 42), ("2023-11-14T22:13:20Z", 17), ("2023-11-14t22:13:20+01:00", 17),
     ("41", 42)],
    ids=repr,
)  # fmt: skip
def test_a_reset_goes_to_an_offset_an_end_or_a_time(offset: str, position: int) -> None:
    def since(name: str, text: str) -> list[int]:
        assert (name, text) == (NAME, offset)
        return [17, 0]

    assert reset_place(cursor(offset), extents, since, "items[0]") == ((NAME, 0), position)


@pytest.mark.parametrize("offset", ["3", "42", "10000"], ids=["it is gone", "it is not there yet", "far beyond"])
def test_a_reset_does_not_go_where_nothing_can_be_read(offset: str) -> None:
    with pytest.raises(PenstockError):
        reset_place(cursor(offset), extents, lambda *_: [], "items[0]")


@pytest.mark.parametrize("offset", ["END", "2023-11-14T22:13:20Z"])
def test_a_partition_that_is_not_there_has_no_end_and_no_times(offset: str) -> None:
    with pytest.raises(UnusableCursor):
        reset_place(cursor(offset, partition="2"), extents, lambda *_: [1, 2], "items[0]")


def test_cursors_are_read_with_their_tokens() -> None:
    body = b'{"items":[{"event_type":"a","partition":"0","offset":"7","cursor_token":"t"},null],"more":1}'

    assert parse_cursors(body).items == [GivenSubscriptionCursor("0", "7", "a", "t"), None]
    assert parse_cursors(b"{}").items is None
    for wrong in (b"", b"[]", b'{"items":{}}', b'{"items":[1]}', b'{"items":[{"cursor_token":1}]}', b"[" * 9_999):
        with pytest.raises(BadParameter):
            parse_cursors(wrong)


def test_a_reset_has_a_reason_and_no_names_that_it_does_not_know() -> None:
    found = parse_subscription_reset(b'{"items":[{"event_type":"a","partition":"0","offset":"7"}],"reason":"r"}')

    assert (found.items, found.reason, found.dry_run) == ([GivenSubscriptionCursor("0", "7", "a")], "r", False)
    assert parse_subscription_reset(b'{"dry_run":true}').dry_run
    for wrong in (b'{"items":[],"dryrun":true}', b'{"items":[],"reason":"\\u0000"}', b'{"items":[1]}', b"[]"):
        with pytest.raises(BadParameter):
            parse_subscription_reset(wrong)


def test_what_is_given_back_says_what_is_kept_and_what_has_failed() -> None:
    one = b'[{"event_type":"a","partition":"1"}]'

    assert parse_release(b"") == parse_release(b"{}") == ((), None)
    assert parse_release(b'{"keep":%b,"failed":[]}' % one) == ((("a", 1),), ())
    assert parse_release(b'{"failed":%b}' % one) == ((), (("a", 1),))
    with pytest.raises(BadStreamParameter):
        parse_release(b'{"keep":[{}]}')


# What is shown


def lines(*batches: Batch) -> list[dict[str, Any]]:
    sent = b"".join(Lines(SECRET, lambda _: 2).parts(batches))
    assert sent.endswith(b"\n")
    return [json.loads(line) for line in sent.splitlines()]


def test_a_batch_is_a_line_with_its_cursor_and_the_token_that_proves_it() -> None:
    [batch] = lines(Batch((NAME, 3), 8, [b'{"n":1}', b'{"n":2}']))

    assert batch == {
        "cursor": {
            "partition": "3",
            "offset": "001-0002-000000000000000007",
            "event_type": NAME,
            "cursor_token": token_of(SECRET, (NAME, 3), 8),
        },
        "events": [{"n": 1}, {"n": 2}],
    }


def test_a_keep_alive_has_no_events_and_what_is_said_is_beside_them() -> None:
    said = 'a "reason" \\ é\n'
    silent, last, both = lines(Batch((NAME, 0), 0), Batch((NAME, 0), 0, (), said), Batch((NAME, 0), 1, [b"{}"], said))

    assert list(silent) == ["cursor"]
    assert silent["cursor"]["offset"] == "001-0002--1"
    assert (list(last), last["info"]) == (["cursor", "info"], {"debug": said})
    assert (both["events"], both["info"]) == ([{}], {"debug": said})


def test_events_that_do_not_follow_up_to_the_cursor_have_their_offsets_beside_them() -> None:
    [batch] = lines(Batch((NAME, 0), 8, [b"1", b"2"], offsets=[3, 7]))

    assert (batch["cursor"]["offset"], batch["info"]) == ("001-0002-000000000000000007", {"offsets": [3, 7]})


def test_parked_events_have_a_token_of_their_own() -> None:
    span = ParkedSpan(3, 17)

    [batch] = lines(Batch((NAME, 0), 8, [b"{}"], "Parked events", span, [17]))

    assert batch["info"] == {"debug": "Parked events", "offsets": [17]}
    assert batch["cursor"]["cursor_token"] == parked_token_of(SECRET, span)
    assert batch["cursor"]["offset"] == "001-0002-000000000000000007"


def test_a_name_is_written_as_json() -> None:
    [batch] = lines(Batch(('a "b" \\ é', 0), 1, [b"{}"]))

    assert batch["cursor"]["event_type"] == 'a "b" \\ é'


def test_results_are_shown_with_the_cursors_as_they_were_given() -> None:
    given = [GivenSubscriptionCursor("0", "7", "a", "t"), GivenSubscriptionCursor(0, "BEGIN", "a")]

    assert results_shown(given, [True, False]) == {
        "items": [
            {
                "cursor": {"partition": "0", "offset": "7", "event_type": "a", "cursor_token": "t"},
                "result": "committed",
            },
            {"cursor": {"partition": 0, "offset": "BEGIN", "event_type": "a"}, "result": "outdated"},
        ]
    }
    assert cursor_shown((NAME, 3), 1, 0, "t")["offset"] == "001-0001--1"


def test_pages_lead_to_each_other_with_all_that_is_looked_for() -> None:
    search = Search("s h", ["a", "b"], ("user", "x&y"))
    pages = list_pages(search, shows=True, limit=2, offset=3, token=None, last="z")

    asked = [("event_type", "a"), ("event_type", "b"), ("reader", "user:x&y"), ("owning_application", "s h")]
    assert pages == {
        "prev": [*asked, ("show_status", "true"), ("offset", 1), ("limit", 2)],
        "next": [*asked, ("show_status", "true"), ("offset", 5), ("limit", 2)],
    }
    none = Search()
    assert list_pages(none, shows=False, limit=9, offset=0, token=None, last=None) == {}
    assert list_pages(none, shows=False, limit=9, offset=0, token="", last="z") == {
        "next": [("token", "z"), ("limit", 9)]
    }
