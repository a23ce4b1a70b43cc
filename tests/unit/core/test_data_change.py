import pickle
from typing import Any

import pytest

import penstock
from penstock.core.data_change import DataChange
from penstock.errors import BadParameter


def test_a_change_says_what_how_and_of_what_sort() -> None:
    change = DataChange("order", "U", {"order_id": 7})

    assert (change.data_type, change.data_op, change.data, change.metadata) == ("order", "U", {"order_id": 7}, None)
    assert pickle.loads(pickle.dumps(change)) == change
    assert penstock.DataChange is DataChange


@pytest.mark.parametrize("operation", ["u", "update", "", None, 1])
def test_an_operation_is_one_of_four(operation: Any) -> None:
    with pytest.raises(BadParameter, match=r"data_op .* allowed: C \(created\), U \(updated\), D \(deleted\) or S"):
        DataChange("order", operation, {})


def test_a_type_is_a_name() -> None:
    with pytest.raises(BadParameter, match="data_type"):
        DataChange(dict, "U", {})  # type: ignore[arg-type]
