"""Weights of the media types in an Accept header."""

import pytest

from penstock.server.http.encoding import weights


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        *((empty, {}) for empty in (None, "", ",", " ; q=1")),
        ("A/B;v=1;q=0.25 , */*;q=0.1,c", {"a/b": 0.25, "*/*": 0.1, "c": 1.0}),
    ],
)
def test_media_types_of_accept_have_their_weights(accept: str | None, found: dict[str, float]) -> None:
    assert weights(accept) == found
