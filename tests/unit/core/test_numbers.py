"""JSON is read as msgspec reads it, but in a time that its length bounds."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.numbers import decode

NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def read(how: Any, text: str) -> tuple[Any, str]:
    try:
        return how(text), ""
    except msgspec.DecodeError as error:
        return None, str(error)


@given(NUMBERS)
def test_every_number_is_what_it_is_to_msgspec(text: str) -> None:
    text = f'{{"a":[1,{text}]}}'
    assert repr(read(decode, text)) == repr(read(msgspec.json.decode, text))


@pytest.mark.parametrize("number", ["1e300", "-8e307", "4.9e-324", "1.7976931348623157e308"])
def test_numbers_near_the_ends_take_no_longer_than_others(number: str) -> None:
    """With msgspec's own way it is about a hundred times as long; what is compared is taken in one process."""

    def seconds(number: str) -> float:
        text = f"[{','.join([number] * 20_000)}]"
        started = time.thread_time()
        decode(text)
        return time.thread_time() - started

    assert min(seconds(number) for _ in range(3)) < 20 * min(seconds("1.2345678901234567") for _ in range(3))
