"""What streams are called."""

import pytest

from penstock.core.stream_name import stream_name


@pytest.mark.parametrize(
    ("key", "is_hashed", "name"),
    [("7", True, "order-7"), ("7", False, "order-3_7"), (None, True, "order-3_"), (None, False, "order-3_")],
)
def test_the_partition_is_part_of_it_unless_the_key_decides_that(key: str | None, is_hashed: bool, name: str) -> None:
    assert stream_name("order", 3, key, is_hashed=is_hashed) == name


def test_an_empty_key_is_a_key_where_keys_decide() -> None:
    assert stream_name("order", 3, "", is_hashed=True) != stream_name("order", 3, None, is_hashed=True)
