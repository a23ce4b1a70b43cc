"""Cursors of feeds: their text, their place in another number of partitions, slices, and tokens that prove them."""

import uuid
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.groups.groups import find_covered_partitions, slice_of, view_of
from penstock.core.log.cursor import FeedCursor, FeedView, check_view, feed_mark, parse_cursor, resolve_cursor
from penstock.core.subscriptions.tokens import (
    ParkedSpan,
    is_valid_token,
    make_parked_token,
    make_token,
    read_parked_token,
)
from penstock.errors import BadCursor, BadPartitionCount, CursorExpired, StaleSplit

FEED = "order.placed"
COUNTS = st.integers(1, 12)


@st.composite
def views(draw: st.DrawFn, count: int | None = None) -> FeedView:
    count = count or draw(COUNTS)
    n = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0] + [count * k for k in (2, 3, 5)]))
    return FeedView(n, draw(st.integers(0, n - 1)), count)


@st.composite
def cursors(draw: st.DrawFn) -> FeedCursor:
    view = draw(views())
    offsets = draw(st.tuples(*[st.integers(0, 10**18 - 1)] * len(view.physical)))
    return FeedCursor(feed_mark(FEED), draw(st.integers(1, 999_999_999)), view, offsets)


@given(cursors())
def test_cursor_is_parsed_as_it_was_encoded(cursor: FeedCursor) -> None:
    text = cursor.encode()
    assert text.isascii()
    assert text.isprintable()
    assert parse_cursor(text, "cursor0", FEED) == cursor


@given(st.text(max_size=60))
def test_any_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_cursor(text, "cursor0", FEED)


@given(cursors(), st.data())
def test_cursor_with_another_character_is_refused_or_another(cursor: FeedCursor, data: st.DataObject) -> None:
    text = cursor.encode()
    at = data.draw(st.integers(0, len(text) - 1))
    other = text[:at] + data.draw(st.characters(exclude_characters=text[at])) + text[at + 1 :]
    with suppress(BadCursor):
        assert parse_cursor(other, "cursor0", FEED) != cursor


def test_cursor_that_no_hub_has_given_out_is_refused() -> None:
    rows: list[str] = [
        "1-{m}-1-4-3-0-0_0",  # 3 neither divides 4 nor is a multiple of it
        "1-{m}-1-4-2-0-0",  # two partitions, one offset
        "1-{m}-1-4-4-4-0",
        "1-{m}-1-0-1-0-0",
        "1-{m}-1-4-0-0-0",
        "2-{m}-1-4-4-0-0",
        "1-{m}-1-4-4-0-",
        "1-{m}-1-4-4-0-0 ",
        "1-{m}-1-4-4-0-\u0661",
        "1-{m}-1-4-4-0-0\n",
    ]
    for text in rows:
        with pytest.raises(BadCursor) as refused:
            parse_cursor(text.format(m=feed_mark(FEED)), "cursor7", FEED)
        assert refused.value.parameter == "cursor7"


def test_cursor_of_another_feed_is_refused() -> None:
    text = FeedCursor(feed_mark("other"), 1, FeedView(1, 0, 1), (0,)).encode()
    with pytest.raises(BadCursor, match="another feed"):
        parse_cursor(text, "cursor0", FEED)


# Places.


@given(COUNTS, st.data())
def test_partitions_of_a_view_share_the_feed_without_overlap(count: int, data: st.DataObject) -> None:
    n = data.draw(views(count)).n
    seen = sorted((p, view.slice) for v in range(n) for view in [FeedView(n, v, count)] for p in view.physical)
    assert seen == [(p, s) for p in range(count) for s in range(max(1, n // count))]


@given(COUNTS, st.data())
def test_cursor_is_placed_wherever_it_covers_the_partitions(count: int, data: st.DataObject) -> None:
    taken, wanted = data.draw(views(count)), data.draw(views(count))
    offsets = tuple(range(100, 100 + len(taken.physical)))
    cursor = FeedCursor(feed_mark(FEED), 1, taken, offsets)
    covers = taken == wanted if taken.slices > 1 else set(wanted.physical) <= set(taken.physical)
    if covers:
        found = resolve_cursor(cursor, wanted, "cursor0", feed=FEED, epoch=1)
        known = dict(zip(taken.physical, offsets, strict=True))
        assert found == {physical: known[physical] for physical in wanted.physical}
    else:
        with pytest.raises(BadCursor) as raised:
            resolve_cursor(cursor, wanted, "cursor0", feed=FEED, epoch=1)
        assert raised.value.n == taken.n


def test_merged_cursor_reads_an_added_partition_from_its_beginning() -> None:
    cursor = FeedCursor(feed_mark(FEED), 1, FeedView(2, 1, 4), (7, 9))
    assert resolve_cursor(cursor, FeedView(2, 1, 6), "cursor1", feed=FEED, epoch=1) == {1: 7, 3: 9, 5: 0}
    with pytest.raises(BadCursor):
        resolve_cursor(cursor, FeedView(2, 0, 6), "cursor0", feed=FEED, epoch=1)


def test_cursor_of_a_slice_is_refused_after_the_partition_count_has_changed() -> None:
    cursor = FeedCursor(feed_mark(FEED), 1, FeedView(8, 5, 4), (7,))
    with pytest.raises(StaleSplit) as raised:
        resolve_cursor(cursor, FeedView(8, 5, 8), "cursor5", feed=FEED, epoch=1)
    assert raised.value.fields == {"n": 8, "cursor_count": 4, "partition_count": 8}


@pytest.mark.parametrize("epoch", [1, 3])
def test_cursor_of_another_epoch_is_expired(epoch: int) -> None:
    cursor = FeedCursor(feed_mark(FEED), epoch, FeedView(1, 0, 1), (7,))
    with pytest.raises(CursorExpired) as raised:
        resolve_cursor(cursor, FeedView(1, 0, 1), "cursor0", feed=FEED, epoch=2)
    assert raised.value.first_available == "_first"


def test_feed_is_read_in_as_many_partitions_as_divide_it_or_multiply_it() -> None:
    for n, count in [(1, 1), (1, 6), (2, 6), (3, 6), (6, 6), (12, 6), (4_092, 6), (4_096, 1)]:
        check_view(n, count)


def test_other_partition_count_is_refused_with_the_divisors() -> None:
    rows: list[tuple[int, int]] = [(0, 6), (4, 6), (5, 6), (7, 6), (9, 6), (32_772, 6), (4_097, 1), (-1, 1)]
    for n, count in rows:
        with pytest.raises(BadPartitionCount) as refused:
            check_view(n, count)
        assert refused.value.partition_count == count
        assert refused.value.divisors[-1] == count


# Slices of a stored position.


def test_slice_covers_the_partitions_of_its_view() -> None:
    for n, partition in [(4, 3), (2, 1), (1, 0), (8, 5), (4_096, 4_095)]:
        view = FeedView(n, partition, 4)

        assert view_of(slice_of(view), 4) == view
        assert find_covered_partitions("cursorset", slice_of(view), 4, []) == set(view.physical)


def test_slice_of_no_view_covers_the_known_partitions() -> None:
    for text in ("", "1", "4/4", "3/0", "0/0", "04/1", "4/-1", "99999/0", "4/1 ", "\u0664/0"):
        assert view_of(text, 4) is None
        assert find_covered_partitions("cursorset", text, 4, [2, 7]) == {2}
    assert find_covered_partitions("processor", "", 3, [1]) == {0, 1, 2}
    assert find_covered_partitions("spark", "2/1", 4, [0, 4]) == {0}


# Tokens that prove a cursor.

SECRET = bytes(range(16))
PLACE = ("order.placed", 3)
SPAN = ParkedSpan(3, 17)


def test_token_proves_its_own_cursor() -> None:
    token = make_token(SECRET, PLACE, 7)

    assert is_valid_token(token, SECRET, PLACE, 7)
    assert str(uuid.UUID(token)) == token, "clients may take it for what Nakadi's is"


def test_token_proves_no_other_cursor() -> None:
    rows: list[tuple[bytes, tuple[str, int], int]] = [
        (b"another", PLACE, 7), (SECRET, ("order.sent", 3), 7), (SECRET, ("order.placed", 4), 7), (SECRET, PLACE, 8),
        (SECRET, ("7 order.placed", 3), 0), (SECRET, ("order.placed", 37), 0),
    ]  # fmt: skip
    for secret, other, position in rows:
        assert not is_valid_token(make_token(SECRET, PLACE, 7), secret, other, position)


def test_other_text_proves_nothing() -> None:
    for token in ["", "x", "é", "\U0001f6b0" * 9, "\x00", "0" * 36]:
        assert not is_valid_token(token, SECRET, PLACE, 7)
        assert read_parked_token(token, SECRET) is None


def test_token_of_parked_events_names_them() -> None:
    span = ParkedSpan((1 << 62) + 1, 1 << 61)

    assert read_parked_token(make_parked_token(SECRET, span), SECRET) == span
    token = make_parked_token(SECRET, SPAN)
    assert read_parked_token(make_token(SECRET, ("parked", 3), 17), SECRET) is None
    assert not is_valid_token(token, SECRET, ("parked", 3), 17)
    assert read_parked_token(make_parked_token(b"another", SPAN), SECRET) is None


FORGERIES: dict[str, Callable[[str], str]] = {
    "another key": lambda token: token.replace("parked-3-", "parked-4-"),
    "further": lambda token: token.replace("-17-", "-18-"),
    "with a nought": lambda token: token.replace("-17-", "-017-"),
    "with a sign": lambda token: token.replace("-17-", "-+17-"),
    "in other digits": lambda token: token.replace("-17-", "-\N{ARABIC-INDIC DIGIT ONE}7-"),
    "in other letters": lambda token: token.replace("parked", "Parked"),
    "cut": lambda token: token[:-1],
    "longer": lambda token: token + "0",
    "in capitals": str.upper,
    "empty": lambda token: token.rpartition("parked-3-17-")[0],
    "without proof": lambda _: "parked-3-17",
    "with an empty proof": lambda _: "parked-3-17-",
    "without numbers": lambda _: "parked-a-b-c",
    "a name alone": lambda _: "parked",
    "a huge number": lambda _: f"parked-{'9' * 5_000}-1-x",
}


def test_token_of_parked_events_cannot_be_forged() -> None:
    for forge in FORGERIES.values():
        assert read_parked_token(forge(make_parked_token(SECRET, SPAN)), SECRET) is None
