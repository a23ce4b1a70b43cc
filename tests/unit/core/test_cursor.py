"""Cursors: from one number of partitions to another, to text and back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cursor import Cursor, View, check_view, feed_mark, parse_cursor, place
from penstock.errors import BadCursor, BadPartitionCount, CursorExpired, StaleSplit

FEED = "order.placed"
COUNTS = st.integers(1, 12)


@st.composite
def views(draw: st.DrawFn, count: int | None = None) -> View:
    count = count or draw(COUNTS)
    n = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0] + [count * k for k in (2, 3, 5)]))
    return View(n, draw(st.integers(0, n - 1)), count)


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    view = draw(views())
    offsets = draw(st.tuples(*[st.integers(0, 10**18 - 1)] * len(view.physical)))
    return Cursor(feed_mark(FEED), draw(st.integers(1, 999_999_999)), view, offsets)


@given(cursors())
def test_a_cursor_is_itself_again_after_its_text(cursor: Cursor) -> None:
    text = cursor.encode()
    assert text.isascii()
    assert text.isprintable()
    assert parse_cursor(text, "cursor0", FEED) == cursor


@given(st.text(max_size=60))
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_cursor(text, "cursor0", FEED)


@given(cursors(), st.data())
def test_a_cursor_with_one_character_changed_is_refused_or_another(cursor: Cursor, data: st.DataObject) -> None:
    text = cursor.encode()
    at = data.draw(st.integers(0, len(text) - 1))
    other = text[:at] + data.draw(st.characters(exclude_characters=text[at])) + text[at + 1 :]
    with suppress(BadCursor):
        assert parse_cursor(other, "cursor0", FEED) != cursor


@pytest.mark.parametrize(
    "text",
    [
        "1-{m}-1-4-3-0-0",  # 3 neither divides 4 nor is a multiple of it
        "1-{m}-1-4-2-0-0",  # two partitions, one offset
        "1-{m}-1-4-4-4-0",
        "1-{m}-1-0-1-0-0",
        "1-{m}-1-4-0-0-0",
        "2-{m}-1-4-4-0-0",
        "1-{m}-1-4-4-0-",
        "1-{m}-1-4-4-0-0 ",
        "1-{m}-1-4-4-0-\u0661",
        "1-{m}-1-4-4-0-0\n",
    ],
)
def test_what_cannot_have_been_given_out_is_refused(text: str) -> None:
    with pytest.raises(BadCursor) as raised:
        parse_cursor(text.format(m=feed_mark(FEED)), "cursor7", FEED)
    assert raised.value.fields["parameter"] == "cursor7"


def test_the_cursor_of_another_feed_is_refused() -> None:
    text = Cursor(feed_mark("other"), 1, View(1, 0, 1), (0,)).encode()
    with pytest.raises(BadCursor, match="another feed"):
        parse_cursor(text, "cursor0", FEED)


@given(COUNTS, st.data())
def test_the_partitions_of_a_view_share_the_feed_without_overlap(count: int, data: st.DataObject) -> None:
    n = data.draw(views(count)).n
    seen = sorted((p, view.slice) for v in range(n) for view in [View(n, v, count)] for p in view.physical)
    assert seen == [(p, s) for p in range(count) for s in range(max(1, n // count))]


@given(COUNTS, st.data())
def test_a_cursor_is_placed_wherever_it_covers_what_is_needed(count: int, data: st.DataObject) -> None:
    taken, wanted = data.draw(views(count)), data.draw(views(count))
    offsets = tuple(range(100, 100 + len(taken.physical)))
    cursor = Cursor(feed_mark(FEED), 1, taken, offsets)
    covers = taken == wanted if taken.slices > 1 else set(wanted.physical) <= set(taken.physical)
    if covers:
        found = place(cursor, wanted, "cursor0", feed=FEED, epoch=1)
        known = dict(zip(taken.physical, offsets, strict=True))
        assert found == {physical: known[physical] for physical in wanted.physical}
    else:
        with pytest.raises(BadCursor) as raised:
            place(cursor, wanted, "cursor0", feed=FEED, epoch=1)
        assert raised.value.fields["n"] == taken.n


def test_a_merged_cursor_reads_an_added_partition_from_its_beginning() -> None:
    cursor = Cursor(feed_mark(FEED), 1, View(2, 1, 4), (7, 9))
    assert place(cursor, View(2, 1, 6), "cursor1", feed=FEED, epoch=1) == {1: 7, 3: 9, 5: 0}
    with pytest.raises(BadCursor):
        place(cursor, View(2, 0, 6), "cursor0", feed=FEED, epoch=1)


def test_a_slices_cursor_is_refused_after_the_count_has_changed() -> None:
    cursor = Cursor(feed_mark(FEED), 1, View(8, 5, 4), (7,))
    with pytest.raises(StaleSplit) as raised:
        place(cursor, View(8, 5, 8), "cursor5", feed=FEED, epoch=1)
    assert raised.value.fields == {"n": 8, "cursor_count": 4, "partition_count": 8}


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_cursor_of_another_epoch_is_expired_and_never_moved(epoch: int) -> None:
    cursor = Cursor(feed_mark(FEED), epoch, View(1, 0, 1), (7,))
    with pytest.raises(CursorExpired) as raised:
        place(cursor, View(1, 0, 1), "cursor0", feed=FEED, epoch=2)
    assert raised.value.fields["first_available"] == "_first"


@pytest.mark.parametrize(("n", "count"), [(1, 1), (1, 6), (2, 6), (3, 6), (6, 6), (12, 6), (4_092, 6), (4_096, 1)])
def test_divisors_and_multiples_work(n: int, count: int) -> None:
    check_view(n, count)


@pytest.mark.parametrize(("n", "count"), [(0, 6), (4, 6), (5, 6), (7, 6), (9, 6), (32_772, 6), (32_769, 1), (-1, 1)])
def test_nothing_else_does_and_the_error_says_what_would(n: int, count: int) -> None:
    with pytest.raises(BadPartitionCount) as raised:
        check_view(n, count)
    assert raised.value.fields["partition_count"] == count
    assert raised.value.fields["divisors"][-1] == count
