import re
from typing import Any

import pytest

from penstock.errors import BadParameter, EncodingRefused
from penstock.server.arrival import FLOW_ID_CHARS_MAX, arrived


def a_scope(path: str = "/version", method: str = "GET", root: str = "", **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "root_path": root, "headers": raw}


@pytest.mark.parametrize("given", ["a", "GKY7oDhpSiKY_gAAAABZ_A", "a b", "~!", "x" * FLOW_ID_CHARS_MAX])
def test_a_flow_id_that_is_brought_is_taken(given: str) -> None:
    assert arrived(a_scope(x_flow_id=given)).flow_id == given


@pytest.mark.parametrize("given", [None, "", " ", " a", "a ", "a\tb", "a\x7f", "käse", "x" * (FLOW_ID_CHARS_MAX + 1)])
def test_another_one_is_made_of_24_letters_and_digits(given: str | None) -> None:
    scope = a_scope() if given is None else a_scope(x_flow_id=given)
    made = [arrived(scope).flow_id for _ in range(100)]
    assert all(re.fullmatch("[0-9A-Za-z]{24}", each) for each in made)
    assert len(set(made)) == 100


def test_the_first_flow_id_holds() -> None:
    scope = a_scope(x_flow_id="first")
    scope["headers"].append((b"x-flow-id", b"second"))
    assert arrived(scope).flow_id == "first"


@pytest.mark.parametrize(
    ("path", "root", "goes_by"),
    [
        ("/", "", "/"),
        ("/version", "", "/version"),
        ("/version/", "", "/version"),
        ("/feeds/a.b/events/", "", "/feeds/a.b/events"),
        ("/events", "/events", "/events"),
        ("/events/", "/events", "/events/"),
        ("/events/version/", "/events", "/events/version"),
        ("/version/", "/events", "/version"),
    ],
)
def test_a_slash_at_the_end_says_nothing(path: str, root: str, goes_by: str) -> None:
    scope = a_scope(path, root=root)
    assert arrived(scope).scope["path"] == goes_by
    assert scope["path"] == path, "the server's own is left as it was"


@pytest.mark.parametrize("path", ["//", "/feeds//a", "/feeds/a//", "//version"])
def test_an_empty_part_of_a_path_is_refused(path: str) -> None:
    refusal = arrived(a_scope(path)).refusal
    assert isinstance(refusal, BadParameter)
    assert (refusal.fields["parameter"], refusal.fields["value"]) == ("path", path)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity", "ünknown"])
def test_a_body_is_encoded_with_post_alone(method: str, encoding: str) -> None:
    refusal = arrived(a_scope(method=method, content_encoding=encoding)).refusal
    assert isinstance(refusal, EncodingRefused)
    assert refusal.detail == f"{method} method doesn't support {encoding} content encoding"
    assert arrived(a_scope(method="POST", content_encoding=encoding)).refusal is None


def test_what_is_right_is_not_refused() -> None:
    assert arrived(a_scope(accept_encoding="gzip")).refusal is None
