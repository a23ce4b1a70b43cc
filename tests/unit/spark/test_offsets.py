import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadParameter
from penstock.spark.offsets import Place, decode_places, encode_places

plain = st.builds(Place, st.integers(1, 9), st.lists(st.integers(0, 10**18), min_size=1, max_size=20).map(tuple))
marks = st.none() | st.integers(0, 99)
places = st.dictionaries(
    st.text(),
    st.builds(
        Place,
        plain.map(lambda p: p.epoch),
        plain.map(lambda p: p.offsets),
        st.none() | plain,
        st.none() | st.text(),
        marks,
    ),
)


@given(places)
def test_a_place_comes_back_from_json_as_it_was(given: dict[str, Place]) -> None:
    assert decode_places(json.loads(json.dumps(encode_places(given)))) == given


@pytest.mark.parametrize(
    "stored", [{"a": 7}, {"a": {"0": 1}}, {"a": {"epoch": 1, "1": 1}}, {"a": {"epoch": 1, "0": "x"}}]
)
def test_an_offset_of_another_source_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(BadParameter, match="not one of format"):
        decode_places(stored)
