import pytest

from penstock.processing.targets.origin import origin, place_of


def test_what_was_written_is_read_back_by_its_group() -> None:
    headers = origin("order-1", 12, "copier")
    assert place_of({**headers, "a": "b"}, "copier") == ("order-1", 12)
    assert place_of(headers, "another") is None


@pytest.mark.parametrize("left_out", ["penstock-stream", "penstock-index", "penstock-group"])
def test_what_somebody_else_has_written_has_no_origin(left_out: str) -> None:
    headers = {name: value for name, value in origin("order-1", 12, "copier").items() if name != left_out}
    assert place_of(headers, "copier") is None
    assert place_of({**origin("order-1", 12, "copier"), "penstock-index": "-1"}, "copier") is None
