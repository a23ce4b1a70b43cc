from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.processors.sources.table import TableSource

NO_COLUMNS: list[Any] = [5, b"x", ["x"]]


def made(**given: Any) -> TableSource:
    return TableSource(**{"frame": lambda spark: spark.range(1), "index": "id", "stream": "id", **given})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("frame", [None, "orders", lambda: None]),
        ("index", [None, *NO_COLUMNS]),
        ("stream", [None, *NO_COLUMNS]),
        ("data", [None, *NO_COLUMNS]),
        ("tranche", [None, 5, [5], {"a"}]),
        ("key", NO_COLUMNS),
        ("kind", NO_COLUMNS),
        ("headers", NO_COLUMNS),
        ("received", NO_COLUMNS),
        ("is_hashed", [None, 1, "yes"]),
        ("has_holes", [None, 0, "no"]),
        ("start", ["now", None]),
    ],
)
def test_what_cannot_be_is_refused_before_spark_is_asked(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadParameter, match="allowed: ") as told:
            made(**{name: value})
        assert told.value.fields["parameter"] == name
    made(tranche="a"), made(tranche=["a", "b"]), made(tranche=())
