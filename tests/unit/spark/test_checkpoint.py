"""A checkpoint beside the options of the query that goes on from it."""

import logging

import pytest

from penstock.errors import BadParameter
from penstock.spark.checkpoint import add_versions, check_checkpoint
from penstock.spark.offsets import FeedPlace
from penstock.spark.options import parse_options

KEPT = {"a": FeedPlace(1, (3,), schema="1.0.0")}


def said(caplog: pytest.LogCaptureFixture, versions: dict[str, str] | None = None, **options: str) -> list[str]:
    chosen = parse_options({"url": "http://localhost:1", "eventType": "a", "payload": "typed"} | options)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        check_checkpoint(KEPT, chosen, {"a": "1.0.0"} if versions is None else versions)
    return caplog.messages


def test_places_are_kept_with_the_schema_and_the_reset() -> None:
    places = {"a": FeedPlace(1, (3,), FeedPlace(1, (0,))), "b": FeedPlace(1, (4,))}

    assert add_versions(places, {"a": "1.2.0"}, 7) == {
        "a": FeedPlace(1, (3,), FeedPlace(1, (0,)), "1.2.0", 7),
        "b": FeedPlace(1, (4,), None, None, 7),
    }


def test_matching_checkpoint_and_options_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog) == []
    assert said(caplog, {}) == [], "columns of a user's own are of no version"


@pytest.mark.parametrize(
    ("options", "versions", "message"),
    [
        ({"startingOffsets": "latest"}, None, "the query goes on from its checkpoint, which wins: startingOffsets"),
        ({"startingOffsets": '{"a": {"0": 1}}'}, None, "its checkpoint, which wins: startingOffsets"),
        ({"eventType": "a,b"}, None, "the checkpoint does not have b: they are read from their beginning"),
        ({"eventType": "b"}, {}, "the checkpoint has a, too; eventType wins"),
        ({"schemaVersion": "1.1.0"}, {"a": "1.1.0"}, "schemaVersion wins: columns are those of 1.1.0"),
        ({"schemaEvolution": "latest"}, {"a": "1.1.0"}, "schemaEvolution=latest wins: columns are those of 1.1.0"),
    ],
)
def test_conflicting_checkpoint_and_options_log_which_one_wins(
    caplog: pytest.LogCaptureFixture, options: dict[str, str], versions: dict[str, str] | None, message: str
) -> None:
    assert any(message in each for each in said(caplog, versions, **options))


def test_new_query_logs_no_checkpoint_warning(caplog: pytest.LogCaptureFixture) -> None:
    chosen = parse_options({"url": "http://localhost:1", "eventType": "a", "startingOffsets": "latest"})
    check_checkpoint(KEPT, chosen, {}, is_new=True)
    assert caplog.messages == []


def test_schema_newer_than_the_checkpoint_is_refused_unless_requested(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BadParameter) as refused:
        said(caplog, {"a": "1.1.0"})

    assert "option schemaEvolution is 'pinned'; allowed: latest" in str(refused.value)
    assert "or say schemaVersion=1.0.0" in str(refused.value)
    assert "the schema of 'a' was 1.0.0 when the checkpoint was written, and is 1.1.0 now" in str(refused.value)
