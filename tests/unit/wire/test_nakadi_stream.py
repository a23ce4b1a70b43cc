"""What a stream in Nakadi's form is asked for, and its lines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batching import Batch
from penstock.errors import BadParameter, BadStreamParameter
from penstock.wire.nakadi_stream import PART_BYTES, Asked, Lines, parse_stream
from penstock.wire.query import Query

DEFAULTS = Asked(batch_limit=1, stream_limit=0, batch_flush_timeout=30, stream_timeout=None, stream_keep_alive_limit=0)


def asked(text: str) -> dict[str, Any]:
    """Return what differs from the defaults."""
    found = parse_stream(Query(text.encode()))
    return {
        name: getattr(found, name)
        for name in Asked.__struct_fields__
        if getattr(found, name) != getattr(DEFAULTS, name)
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("unknown=7", {}),
        ("batch_limit=5&stream_limit=5", {"batch_limit": 5, "stream_limit": 5}),
        ("batch_flush_timeout=0", {}),
        ("batch_flush_timeout=7", {"batch_flush_timeout": 7}),
        ("stream_timeout=30", {"stream_timeout": 30}),
        ("stream_timeout=4200", {"stream_timeout": 4200}),
        ("stream_timeout=4201", {}),
        ("stream_timeout=0", {}),
        ("stream_timeout=-1", {}),
        ("batch_flush_timeout=2&stream_timeout=2", {"batch_flush_timeout": 2, "stream_timeout": 2}),
        ("batch_flush_timeout=5000", {"batch_flush_timeout": 5000}),
        ("stream_keep_alive_limit=3", {"stream_keep_alive_limit": 3}),
    ],
)
def test_what_is_asked_for_is_read_with_its_defaults(text: str, found: dict[str, int]) -> None:
    assert asked(text) == found


@pytest.mark.parametrize(
    ("text", "parameter", "detail"),
    [
        ("batch_limit=0", "batch_limit", "batch_limit can't be lower than 1"),
        ("batch_limit=-5", "batch_limit", "batch_limit can't be lower than 1"),
        ("batch_limit=5&stream_limit=4", "stream_limit", "stream_limit can't be lower than batch_limit"),
        ("stream_limit=-1", "stream_limit", "stream_limit can't be lower than batch_limit"),
        ("stream_timeout=5", "stream_timeout", "stream_timeout can't be lower than batch_flush_timeout"),
        (
            "stream_timeout=5&batch_flush_timeout=10",
            "stream_timeout",
            "stream_timeout can't be lower than batch_flush_timeout",
        ),
        ("batch_flush_timeout=-1", "batch_flush_timeout", "batch_flush_timeout can't be lower than 0"),
        ("stream_keep_alive_limit=-1", "stream_keep_alive_limit", "stream_keep_alive_limit can't be lower than 0"),
    ],
)
def test_numbers_that_make_no_sense_are_named(text: str, parameter: str, detail: str) -> None:
    with pytest.raises(BadStreamParameter) as refused:
        asked(text)
    assert (refused.value.detail, refused.value.fields["parameter"]) == (detail, parameter)
    assert refused.value.fields["allowed"].endswith(" or more")


@pytest.mark.parametrize(
    "value",
    ["", "x", "1.5", "\u0661", "1e3", " 1", "+1", "9" * 10, "1" * 5000, "2147483648", "1&{}=2"],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("parameter", Asked.__struct_fields__)
def test_what_is_no_number_is_named(parameter: str, value: str) -> None:
    with pytest.raises(BadParameter) as refused:
        asked(f"{parameter}={value.format(parameter)}")
    assert refused.value.fields["parameter"] == parameter


def test_a_line_is_as_clients_compare_it() -> None:
    (line,) = Lines(1).parts([Batch(3, 8, [b'{"a": 1}', b'{"b":"\xc3\xa9"}'])])
    assert (
        line
        == b'{"cursor":{"partition":"3","offset":"001-0001-000000000000000007"},"events":[{"a": 1},{"b":"\xc3\xa9"}]}\n'
    )


def test_a_keep_alive_has_no_events() -> None:
    assert [*Lines(0x2A).parts([Batch(0, 1, [])])] == [
        b'{"cursor":{"partition":"0","offset":"001-002a-000000000000000000"}}\n'
    ]
    assert [*Lines(2).parts([Batch(11, 0, [])])] == [b'{"cursor":{"partition":"11","offset":"001-0002--1"}}\n']


@given(st.lists(st.sampled_from([1, 10, 1_000, PART_BYTES // 3, PART_BYTES, 3 * PART_BYTES]), min_size=1, max_size=40))
def test_a_large_line_comes_in_parts_that_make_it(sizes: list[int]) -> None:
    events = [b'"%b"' % (b"x" * size) for size in sizes]

    parts = [*Lines(1).parts([Batch(0, 99, events)])]

    assert json.loads(b"".join(parts))["events"] == ["x" * size for size in sizes]
    assert b"".join(parts).index(b"\n") == len(b"".join(parts)) - 1
    if len(set(sizes)) == 1:
        assert max(map(len, parts)) <= PART_BYTES + max(PART_BYTES, sizes[0]) + len(events) + 100
