"""Publishing to a Nakadi: what is sent in one request, what is sent again, and which options there are."""

import pytest

from penstock.errors import BadParameter, MalformedAnswer
from penstock.spark.pipelines.nakadi import BATCH_BYTES, Nakadi, find_unpublished, pieces


def test_a_request_has_a_size() -> None:
    large = b"x" * (BATCH_BYTES // 2)

    assert [len(piece) for piece in pieces([large, large, b"x"])] == [2, 1]
    assert list(pieces([])) == []


def test_an_event_larger_than_a_request_goes_alone() -> None:
    assert [len(piece) for piece in pieces([b"{}", b"x" * (BATCH_BYTES + 1), b"{}"])] == [1, 1, 1]


def test_events_that_nakadi_did_not_store_remain_unpublished() -> None:
    told = [{"publishing_status": status} for status in ("submitted", "failed", "submitted")]

    assert find_unpublished([b"1", b"2", b"3"], told, "x") == [b"2", b"3"], "in their order"


@pytest.mark.parametrize("told", [[{}], [{"publishing_status": "submitted"}] * 2, {"a": 1}, [3]])
def test_publishing_answer_of_another_shape_is_malformed(told: object) -> None:
    with pytest.raises(MalformedAnswer, match="not what became of 1 events"):
        find_unpublished([b"1"], told, "x")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "nakadi"}, "option url"),
        ({"event_type": ""}, "event_type"),
        ({"options": {"tokenfile": "x", "colour": "red"}}, "no option 'colour'"),
        ({"options": {"retryTimeout": "soon"}}, "option retryTimeout"),
    ],
)
def test_wrong_publishing_option_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Nakadi(**({"url": "http://localhost", "event_type": "order"} | given))  # type: ignore[arg-type]


def test_a_token_is_never_shown() -> None:
    from penstock.spark.pipelines.nakadi import Publishing

    assert "secret" not in repr(Publishing("http://x", {"Authorization": "Bearer secret"}, 1.0))
