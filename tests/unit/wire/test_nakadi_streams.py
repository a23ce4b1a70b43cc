"""Streams in Nakadi's form, with and without a subscription: their parameters, cursors and lines."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.log import batching
from penstock.core.registry.definition import NAKADI, PENSTOCK
from penstock.core.subscriptions.assignment import PoisonOffset
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.core.subscriptions.delivery import DeliveryBatch
from penstock.core.subscriptions.tokens import ParkedSpan, make_parked_token, make_token
from penstock.errors import BadParameter, PenstockError, UnusablePosition
from penstock.wire.log import nakadi as nakadi_stream
from penstock.wire.log.nakadi import PART_BYTES, OffsetExtent, StreamRequest, parse_stream
from penstock.wire.query import Query
from penstock.wire.subscriptions import (
    BATCHES,
    STREAM_TIMEOUTS,
    BatchLine,
    GivenSubscriptionCursor,
    RawStreamParameters,
    SubscriptionLines,
    check_stream_parameters,
    commit_results,
    list_pages,
    parse_committed,
    parse_cursors,
    parse_release,
    parse_reset_target,
    parse_stream_body,
    parse_stream_query,
    parse_subscription_reset,
    subscription_cursor_object,
)
from tests.failing import has_code

NAME = "order.placed"
EXTENTS = [OffsetExtent(epoch=1, floor=5, next_offset=42), OffsetExtent(epoch=1, floor=0, next_offset=0)]
SECRET = b"secret"
NO_NUMBERS = ["", "x", "1.5", "\u0661", "1e3", " 1", "+1", "--1", "9" * 10, "1" * 5000, "2147483648", "-2147483648"]

# Parameters of a stream without a subscription.

DEFAULTS = StreamRequest(
    batch_limit=1, stream_limit=0, batch_flush_timeout=30, stream_timeout=None, stream_keep_alive_limit=0
)


def differences(text: str) -> dict[str, Any]:
    """Return the parameters of a query that differ from the defaults."""
    found = parse_stream(Query(text.encode()))
    names = StreamRequest.__struct_fields__
    return {name: getattr(found, name) for name in names if getattr(found, name) != getattr(DEFAULTS, name)}


def test_parameters_of_a_stream_have_defaults_and_limits() -> None:
    rows: list[tuple[str, dict[str, int]]] = [
        ("", {}), ("unknown=7", {}), ("batch_limit=5&stream_limit=5", {"batch_limit": 5, "stream_limit": 5}),
        ("batch_flush_timeout=0", {}), ("batch_flush_timeout=7", {"batch_flush_timeout": 7}),
        ("stream_timeout=30", {"stream_timeout": 30}), ("stream_timeout=4200", {"stream_timeout": 4200}),
        ("stream_timeout=4201", {}), ("stream_timeout=0", {}), ("stream_timeout=-1", {}),
        ("batch_flush_timeout=2&stream_timeout=2", {"batch_flush_timeout": 2, "stream_timeout": 2}),
        ("batch_flush_timeout=5000", {"batch_flush_timeout": 5000}),
        ("stream_keep_alive_limit=3", {"stream_keep_alive_limit": 3}),
    ]  # fmt: skip
    for text, found in rows:
        assert differences(text) == found


@pytest.mark.parametrize(
    ("text", "parameter", "detail"),
    [
        ("batch_limit=0", "batch_limit", "batch_limit can't be lower than 1"),
        ("batch_limit=-5", "batch_limit", "batch_limit can't be lower than 1"),
        ("batch_limit=5&stream_limit=4", "stream_limit", "stream_limit can't be lower than batch_limit"),
        ("stream_limit=-1", "stream_limit", "stream_limit can't be lower than batch_limit"),
        ("stream_timeout=5", "stream_timeout", "stream_timeout can't be lower than batch_flush_timeout"),
        ("stream_timeout=5&batch_flush_timeout=10", "stream_timeout",
         "stream_timeout can't be lower than batch_flush_timeout"),
        ("batch_flush_timeout=-1", "batch_flush_timeout", "batch_flush_timeout can't be lower than 0"),
        ("stream_keep_alive_limit=-1", "stream_keep_alive_limit", "stream_keep_alive_limit can't be lower than 0"),
    ],
)  # fmt: skip
def test_contradictory_parameter_of_a_stream_is_named(text: str, parameter: str, detail: str) -> None:
    with pytest.raises(BadParameter, check=has_code("bad-stream-parameter")) as refused:
        differences(text)
    assert (refused.value.detail, refused.value.parameter) == (detail, parameter)
    assert refused.value.allowed.endswith(" or more")


def test_parameter_of_a_stream_that_is_no_number_is_named() -> None:
    for parameter in StreamRequest.__struct_fields__:
        for value in (*NO_NUMBERS, f"1&{parameter}=2"):
            with pytest.raises(BadParameter) as refused:
                differences(f"{parameter}={value}")
            assert refused.value.parameter == parameter


@pytest.mark.parametrize("parse", [parse_stream, parse_stream_query])
@pytest.mark.parametrize("name", ["until", "until0"])
def test_stream_refuses_the_end_that_only_a_page_can_have(parse: Callable[[Query], object], name: str) -> None:
    with pytest.raises(BadParameter, match="GET /feeds: stream_limit and stream_timeout end a stream") as refused:
        parse(Query(f"batch_limit=1&{name}=5".encode()))
    assert (refused.value.parameter, refused.value.value) == (name, "5")


# Parameters of a stream of a subscription.


def test_defaults_of_a_subscription_stream_are_those_of_nakadi() -> None:
    rules, wants = check_stream_parameters(RawStreamParameters(), PENSTOCK)

    assert (rules.max_uncommitted, rules.batch_limit, rules.stream_limit, rules.keep_alive_limit) == (10, 1, 0, 0)
    assert (rules.flush_timeout, rules.timespan_seconds, rules.commit_timeout, rules.bytes_max) == (
        30,
        0,
        60,
        50_000_000,
    )
    assert STREAM_TIMEOUTS[0] <= rules.timeout <= STREAM_TIMEOUTS[1]
    assert not math.isinf(rules.timeout)
    assert wants == ()


def test_query_and_body_have_the_same_parameters() -> None:
    values = {
        "max_uncommitted_events": 9, "batch_limit": 8, "stream_limit": 7, "batch_flush_timeout": 0.25,
        "batch_timespan": 5, "stream_timeout": 4, "stream_keep_alive_limit": 3, "commit_timeout": 2,
    }  # fmt: skip
    by_query = parse_stream_query(Query("&".join(f"{name}={value}" for name, value in values.items()).encode()))

    assert by_query == parse_stream_body(json.dumps(values).encode()) == RawStreamParameters(**values)
    rules = check_stream_parameters(by_query, NAKADI).rules
    assert (rules.max_uncommitted, rules.batch_limit, rules.stream_limit, rules.flush_timeout) == (9, 8, 7, 0.25)
    assert (rules.timespan_seconds, rules.timeout, rules.keep_alive_limit, rules.commit_timeout) == (5, 4, 3, 2)


def test_body_may_be_empty_and_unreadable_numbers_are_refused() -> None:
    for body in (b"", b" \n", b"{}", b'{"partitions":[]}', b'{"partitions":null,"x":1}'):
        assert check_stream_parameters(parse_stream_body(body), PENSTOCK).wants == ()

    for text in NO_NUMBERS:
        with pytest.raises(BadParameter) as refused:
            parse_stream_query(Query(b"batch_limit=" + text.encode()))
        assert refused.value.parameter == "batch_limit"
    numbers = (b'{"batch_limit":"1"}', b'{"batch_limit":1.5}', b'{"batch_limit":2147483648}')
    for body in (b"[]", b"{", *numbers, b"\xff", b'{"partitions":{}}'):
        with pytest.raises(BadParameter):
            parse_stream_body(body)


LEAST = {
    "max_uncommitted_events": 1, "batch_limit": 1, "stream_limit": 0, "batch_flush_timeout": 0, "batch_timespan": 0,
    "stream_keep_alive_limit": 0, "commit_timeout": 0,
}  # fmt: skip


def test_number_below_its_least_value_is_named() -> None:
    for name, least in LEAST.items():
        check_stream_parameters(RawStreamParameters(**{name: least}), PENSTOCK)
        with pytest.raises(
            BadParameter, check=has_code("bad-stream-parameter"), match=f"{name} can't be lower than {least}"
        ) as refused:
            check_stream_parameters(RawStreamParameters(**{name: least - 1}), PENSTOCK)
        assert (refused.value.parameter, refused.value.value) == (name, least - 1)


@pytest.mark.parametrize(("limits", "most"), [(PENSTOCK, 3_600), (NAKADI, 60)], ids=["by default", "strictly"])
def test_commit_timeout_has_a_maximum(limits: Any, most: int) -> None:
    assert check_stream_parameters(RawStreamParameters(commit_timeout=most), limits).rules.commit_timeout == most
    with pytest.raises(BadParameter, check=has_code("bad-stream-parameter"), match=f"can't be higher than {most}"):
        check_stream_parameters(RawStreamParameters(commit_timeout=most + 1), limits)


def test_stream_timeout_is_random_unless_it_is_in_range() -> None:
    """Streams that began together do not end together."""
    for timeout in [None, 0, -1, 4_201]:
        found = {
            check_stream_parameters(RawStreamParameters(stream_timeout=timeout), PENSTOCK).rules.timeout
            for _ in range(9)
        }

        assert all(STREAM_TIMEOUTS[0] <= each <= STREAM_TIMEOUTS[1] for each in found)
        assert len(found) > 1
        assert check_stream_parameters(RawStreamParameters(stream_timeout=4_200), PENSTOCK).rules.timeout == 4_200


def test_partitions_are_requested_by_number_or_text_each_once() -> None:
    one, other = b'{"event_type":"a","partition":"1"}', b'{"event_type":"b","partition":0}'

    for first, second, wants in ((one, other, (("a", 1), ("b", 0))), (other, one, (("b", 0), ("a", 1)))):
        assert (
            check_stream_parameters(parse_stream_body(b'{"partitions":[%b,%b]}' % (first, second)), PENSTOCK).wants
            == wants
        )

    for partitions in NO_PARTITIONS.values():
        with pytest.raises(BadParameter, check=has_code("bad-stream-parameter")):
            check_stream_parameters(parse_stream_body(json.dumps({"partitions": partitions}).encode()), PENSTOCK)


def of_a(partition: Any) -> dict[str, Any]:
    return {"event_type": "a", "partition": partition}


NO_PARTITIONS = {
    "nothing": [{}], "no partition": [{"event_type": "a"}], "no event type": [{"partition": "1"}],
    "no number": [of_a("x")], "below zero": [of_a(-1)], "too long": [of_a("1" * 10)], "twice": [of_a("1"), of_a(1)],
}  # fmt: skip


# Cursors of a subscription.


def extents(name: str) -> Sequence[OffsetExtent]:
    assert name == NAME
    return EXTENTS


def cursor(offset: Any = "7", partition: Any = "0", event_type: str | None = NAME) -> GivenSubscriptionCursor:
    return GivenSubscriptionCursor(partition, offset, event_type)


def no_time(name: str, text: str) -> NoReturn:
    raise BadParameter(parameter="offset", value=text, allowed="a time")


COMMITTED = {
    "as it was sent": (cursor("001-0001-000000000000000007"), 8), "a number": (cursor("7"), 8),
    "the beginning": (cursor("BEGIN"), 5), "before all": (cursor("-1"), 0),
    "a partition as a number": (cursor("7", partition=0), 8), "beyond the end": (cursor("10000"), 10_001),
}  # fmt: skip


def test_cursor_is_committed_by_the_last_event_before_it() -> None:
    for committed, position in COMMITTED.values():
        assert parse_committed(committed, extents, "items[0]") == ((NAME, 0), position)


NO_CURSORS = {
    "null": (None, "items[0]"), "no event type": (cursor(event_type=None), "items[0].event_type"),
    "no offset": (cursor(offset=None), ""), "no partition": (cursor(partition=None), ""),
    "another partition": (cursor(partition="2"), ""), "no offset's text": (cursor("x"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("given", "at"), NO_CURSORS.values(), ids=NO_CURSORS)
def test_wrong_cursor_is_refused_for_a_commit_and_for_a_reset(given: GivenSubscriptionCursor | None, at: str) -> None:
    for read in (parse_committed, lambda *asked: parse_reset_target(*asked[:2], no_time, asked[2])):
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            read(given, extents, "items[0]")
        assert at in str(refused.value)


def test_refused_reset_names_the_available_offsets_and_forms_and_a_refused_commit_none() -> None:
    for offset in ["-5", "END", "001-0007-000000000000000041"]:
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            parse_committed(cursor(offset), extents, "items[0]")

        assert refused.value.fields.keys() == {"partition", "offset", "reason"}
        assert str(refused.value).startswith(f"offset {offset} of partition 0 cannot be used: it is ")

    for offset in ["-5", "noon", "2026-11-20", "2026-11-20T10:00:00"]:
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            parse_reset_target(cursor(offset), extents, no_time, "items[0]")

        assert refused.value.fields == {
            "partition": "0",
            "offset": offset,
            "oldest_available_offset": "001-0001-000000000000000005",
            "newest_available_offset": "001-0001-000000000000000041",
            "reason": "it is neither of the form 001-0001-000000000000000041 nor BEGIN, END or a time such as "
            "2026-11-20T10:00:00Z",
        }


TIME = "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("offset", "position"),
    [("7", 8), ("BEGIN", 5), ("END", 42), ("end", 42), (TIME, 17), ("2023-11-14t22:13:20+01:00", 17), ("41", 42)],
    ids=repr,
)
def test_reset_goes_to_an_offset_an_end_or_a_time(offset: str, position: int) -> None:
    def since(name: str, text: str) -> list[int]:
        assert (name, text) == (NAME, offset)
        return [17, 0]

    assert parse_reset_target(cursor(offset), extents, since, "items[0]") == ((NAME, 0), position)


def test_reset_to_unreadable_offsets_and_missing_partitions_is_refused() -> None:
    for offset in ("3", "42", "10000"):
        with pytest.raises(PenstockError):
            parse_reset_target(cursor(offset), extents, lambda *_: [], "items[0]")
    for offset in ("END", TIME):
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")):
            parse_reset_target(cursor(offset, partition="2"), extents, lambda *_: [1, 2], "items[0]")


ITEM = b'{"event_type":"a","partition":"0","offset":"7"}'


def test_cursors_are_parsed_with_their_tokens() -> None:
    assert parse_cursors(b'{"items":[%b,null],"more":1}' % ITEM.replace(b"}", b',"cursor_token":"t"}')).items == [
        GivenSubscriptionCursor("0", "7", "a", "t"), None,
    ]  # fmt: skip
    assert parse_cursors(b"{}").items is None
    for wrong in (b"", b"[]", b'{"items":{}}', b'{"items":[1]}', b'{"items":[{"cursor_token":1}]}', b"[" * 9_999):
        with pytest.raises(BadParameter):
            parse_cursors(wrong)


def test_reset_has_a_reason_and_no_unknown_members() -> None:
    found = parse_subscription_reset(b'{"items":[%b],"reason":"r"}' % ITEM)

    assert (found.items, found.reason, found.dry_run) == ([GivenSubscriptionCursor("0", "7", "a")], "r", False)
    assert parse_subscription_reset(b'{"dry_run":true}').dry_run
    for wrong in (b'{"items":[],"dryrun":true}', b'{"items":[],"reason":"\\u0000"}', b'{"items":[1]}', b"[]"):
        with pytest.raises(BadParameter):
            parse_subscription_reset(wrong)


def test_release_names_the_partitions_that_are_kept_and_that_failed() -> None:
    one = b'[{"event_type":"a","partition":"1"}]'

    assert parse_release(b"") == parse_release(b"{}") == ((), None, [])
    assert parse_release(b'{"keep":%b,"failed":[]}' % one) == ((("a", 1),), (), [])
    assert parse_release(b'{"failed":%b}' % one) == ((), (("a", 1),), [])
    with pytest.raises(BadParameter, check=has_code("bad-stream-parameter")):
        parse_release(b'{"keep":[{}]}')


def test_release_names_events_that_are_to_be_parked() -> None:
    event = b'{"event_type":"a","partition":"1","offset":"001-0002-000000000000000017","attempts":3}'
    given = parse_release(b'{"parked":[%b,%b]}' % (event, event.replace(b"17", b"18").replace(b',"attempts":3', b"")))

    assert given.parked == [PoisonOffset(("a", 1), 2, 17, 3), PoisonOffset(("a", 1), 2, 18, 1)]
    for wrong in (
        event.replace(b"001-0002-000000000000000017", b"BEGIN"),
        event.replace(b"001-0002-000000000000000017", b"001-0002--1"),
        event.replace(b"3}", b"0}"),
        event.replace(b'"partition":"1",', b""),
        b",".join([event] * 1_001),
    ):
        with pytest.raises(BadParameter):
            parse_release(b'{"parked":[%b]}' % wrong)


def test_results_are_shown_with_the_cursors_as_they_were_given() -> None:
    given = [GivenSubscriptionCursor("0", "7", "a", "t"), GivenSubscriptionCursor(0, "BEGIN", "a")]

    first = {"partition": "0", "offset": "7", "event_type": "a", "cursor_token": "t"}
    second = {"partition": 0, "offset": "BEGIN", "event_type": "a"}
    assert commit_results(given, [True, False]) == {
        "items": [{"cursor": first, "result": "committed"}, {"cursor": second, "result": "outdated"}]
    }
    assert subscription_cursor_object((NAME, 3), 1, 0, "t")["offset"] == "001-0001--1"


def test_pages_of_subscriptions_link_to_each_other_with_the_search() -> None:
    search = SubscriptionSearch("s h", ["a", "b"], ("user", "x&y"))
    pages = list_pages(search, shows=True, limit=2, offset=3, token=None, last="z")

    asked = [("event_type", "a"), ("event_type", "b"), ("reader", "user:x&y"), ("owning_application", "s h")]
    assert pages == {
        "prev": [*asked, ("show_status", "true"), ("offset", 1), ("limit", 2)],
        "next": [*asked, ("show_status", "true"), ("offset", 5), ("limit", 2)],
    }
    none = SubscriptionSearch()
    assert list_pages(none, shows=False, limit=9, offset=0, token=None, last=None) == {}
    assert list_pages(none, shows=False, limit=9, offset=0, token="", last="z") == {
        "next": [("token", "z"), ("limit", 9)]
    }


# Lines of a stream.


def parts(*batches: batching.FeedBatch, epoch: int = 1) -> list[bytes]:
    return [*nakadi_stream.StreamLines(epoch).parts(batches)]


def test_line_of_a_stream_is_written_byte_for_byte() -> None:
    events = [b'{"a": 1}', b'{"b":"\xc3\xa9"}']
    place = b'"partition":"3","offset":"001-0001-000000000000000007"'
    assert parts(batching.FeedBatch(3, 8, events)) == [b'{"cursor":{%b},"events":[%b]}\n' % (place, b",".join(events))]
    for batch, epoch, keep_alive in (
        (batching.FeedBatch(0, 1, []), 0x2A, b'{"cursor":{"partition":"0","offset":"001-002a-000000000000000000"}}\n'),
        (batching.FeedBatch(11, 0, []), 2, b'{"cursor":{"partition":"11","offset":"001-0002--1"}}\n'),
    ):
        assert parts(batch, epoch=epoch) == [keep_alive]


@given(st.lists(st.sampled_from([1, 10, 1_000, PART_BYTES // 3, PART_BYTES, 3 * PART_BYTES]), min_size=1, max_size=40))
@example([PART_BYTES // 3] * 40)
def test_large_line_comes_in_parts_of_limited_size(sizes: list[int]) -> None:
    found = parts(batching.FeedBatch(0, 99, [b'"%b"' % (b"x" * size) for size in sizes]))
    line = b"".join(found)

    assert json.loads(line)["events"] == ["x" * size for size in sizes]
    assert line.index(b"\n") == len(line) - 1
    if len(set(sizes)) == 1:
        assert max(map(len, found)) <= PART_BYTES + max(PART_BYTES, sizes[0]) + len(sizes) + 100


def lines(*batches: DeliveryBatch) -> list[dict[str, Any]]:
    sent = b"".join(SubscriptionLines(SECRET, lambda _: 2).parts(batches))
    assert sent.endswith(b"\n")
    return [json.loads(line) for line in sent.splitlines()]


def test_batch_of_a_subscription_has_a_cursor_and_the_token_that_proves_it() -> None:
    [batch] = lines(DeliveryBatch((NAME, 3), 8, [b'{"n":1}', b'{"n":2}']))

    place = {"partition": "3", "offset": "001-0002-000000000000000007", "event_type": NAME}
    assert batch["cursor"] == place | {"cursor_token": make_token(SECRET, (NAME, 3), 8)}
    assert batch["events"] == [{"n": 1}, {"n": 2}]
    [escaped] = lines(DeliveryBatch(('a "b" \\ é', 0), 1, [b"{}"]))
    assert escaped["cursor"]["event_type"] == 'a "b" \\ é'


def test_keep_alive_has_no_events_and_a_reason_beside_it() -> None:
    reason = 'a "reason" \\ é\n'
    silent, last, both = lines(
        DeliveryBatch((NAME, 0), 0),
        DeliveryBatch((NAME, 0), 0, (), reason),
        DeliveryBatch((NAME, 0), 1, [b"{}"], reason),
    )

    assert list(silent) == ["cursor"]
    assert silent["cursor"]["offset"] == "001-0002--1"
    assert (list(last), last["info"]) == (["cursor", "info"], {"debug": reason})
    assert (both["events"], both["info"]) == ([{}], {"debug": reason})


def test_offsets_and_parked_events_of_a_batch_are_told_beside_it() -> None:
    [batch] = lines(DeliveryBatch((NAME, 0), 8, [b"1", b"2"], offsets=[3, 7]))

    assert (batch["cursor"]["offset"], batch["info"]) == ("001-0002-000000000000000007", {"offsets": [3, 7]})

    span = ParkedSpan(3, 17)

    [batch] = lines(DeliveryBatch((NAME, 0), 8, [b"{}"], "Parked events", span, [17]))

    assert batch["info"] == {"debug": "Parked events", "offsets": [17]}
    assert batch["cursor"]["cursor_token"] == make_parked_token(SECRET, span)
    assert batch["cursor"]["offset"] == "001-0002-000000000000000007"


# Lines as a client reads them.


def read(rest: bytes = b"") -> BatchLine:
    place = b'"partition":"0","offset":"001-0001-000000000000000004","event_type":"a.b","cursor_token":"t"'
    return BATCHES.decode(b'{"cursor":{%b}%b}' % (place, rest))


def test_events_are_handed_on_byte_for_byte() -> None:
    events = read(rb',"events":[{"n" : 1.50,"t":"\u00e4"},{"n":1,"n":2}]').events

    assert [bytes(each) for each in events or ()] == [rb'{"n" : 1.50,"t":"\u00e4"}', b'{"n":1,"n":2}']


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b"", None),
        (b',"info":{"debug":"Commit timeout reached"}', "Commit timeout reached"),
        (b',"info":{"debug":"Stream started; skipped events due to retention time passed, count: 3"}', None),
        (b',"events":[{}],"info":{"debug":"Stream parameters are causing overflow"}', None),
        (b',"info":{}', None),
    ],
)
def test_line_without_events_gives_the_reason_of_the_end(rest: bytes, reason: str | None) -> None:
    found = read(rest)

    assert found.reason == reason
    if not rest:
        assert (found.events, found.debug) == (None, None)
