from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.processors.sources.messagedb import MessagedbSource

URL = "postgresql://localhost/message_store"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("schema", [None, 5, ""]),
        ("retry_seconds", [None, "60", -1, float("nan")]),
        ("start", ["now", None]),
    ],
)
def test_what_cannot_be_is_refused_before_the_database_is_asked(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadParameter, match="allowed: ") as told:
            MessagedbSource(URL, "account", **{name: value})
        assert told.value.fields["parameter"] == name


def test_an_address_and_categories_are_texts() -> None:
    for value in (None, 5, b"x"):
        wrong: Any = value
        with pytest.raises(BadParameter, match=r"url .*; allowed: postgresql://"):
            MessagedbSource(wrong, "account")
        with pytest.raises(BadParameter, match=r"categories is .*; allowed: a list of texts"):
            MessagedbSource(URL, wrong)
