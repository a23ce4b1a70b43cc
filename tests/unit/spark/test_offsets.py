import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadParameter
from penstock.spark.foreign.messagedb import CategoryQuery
from penstock.spark.foreign.nakadi import SubscriptionQuery
from penstock.spark.foreign.zeroeventhub import FeedQuery
from penstock.spark.offsets import FeedPlace, decode_places, encode_places

decode_categories = CategoryQuery(url="postgresql://localhost", category=("account",)).decode
decode_subscription = SubscriptionQuery(url="http://x", subscription="s", landing_location="/landing").decode
decode_remote = FeedQuery(url="http://x").decode
plain = st.builds(FeedPlace, st.integers(1, 9), st.lists(st.integers(0, 10**18), min_size=1, max_size=20).map(tuple))
marks = st.none() | st.integers(0, 99)
places = st.dictionaries(
    st.text(),
    st.builds(
        FeedPlace,
        plain.map(lambda p: p.epoch),
        plain.map(lambda p: p.offsets),
        st.none() | plain,
        st.none() | st.text(),
        marks,
    ),
)


@given(places)
def test_a_place_comes_back_from_json_as_it_was(given: dict[str, FeedPlace]) -> None:
    assert decode_places(json.loads(json.dumps(encode_places(given)))) == given


@pytest.mark.parametrize(
    ("decode", "stored", "source"),
    [
        (decode_places, {"a": 7}, "penstock"),
        (decode_places, {"a": {"0": 1}}, "penstock"),
        (decode_places, {"a": {"epoch": 1, "1": 1}}, "penstock"),
        (decode_places, {"a": {"epoch": 1, "0": "x"}}, "penstock"),
        (decode_categories, {"account": {"0": 17}}, "messagedb"),
        (decode_categories, {"account": None}, "messagedb"),
        (decode_categories, {"account": {"epoch": 1, "0": 3}}, "messagedb"),
        (decode_categories, [17], "messagedb"),
        (decode_remote, {"0": 17}, "zeroeventhub"),
        (decode_remote, {"landing": "6f1c", "run": "r", "partitions": {"0": 17}}, "zeroeventhub"),
        (decode_remote, {"landing": "6f1c", "partitions": {}}, "zeroeventhub"),
        (decode_remote, [], "zeroeventhub"),
        (decode_subscription, {}, "nakadi"),
        (decode_subscription, {"a.b": {"0": 3}}, "nakadi"),
        (
            decode_subscription,
            {"subscription": "s", "landing": "l", "run": "r", "page": 3, "cursors": 3},
            "nakadi",
        ),
    ],
)
def test_stored_offset_of_another_source_is_refused(decode: Callable[[Any], Any], stored: Any, source: str) -> None:
    with pytest.raises(BadParameter, match=rf"not one of format\('{source}'\)"):
        decode(stored)
