"""A request on arrival: its flow id, slashes in its path, and the methods that take an encoded body."""

import re
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.server.http.requests import CREDENTIAL, FLOW_ID_CHARS_MAX, ORIGIN, check_arrival
from tests.failing import has_code


def a_scope(path: str = "/version", method: str = "GET", root: str = "", **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "root_path": root, "headers": raw}


@pytest.mark.parametrize("given", ["a", "GKY7oDhpSiKY_gAAAABZ_A", "a b", "~!", "x" * FLOW_ID_CHARS_MAX])
def test_first_flow_id_of_the_request_is_taken(given: str) -> None:
    scope = a_scope(x_flow_id=given)
    scope["headers"].append((b"x-flow-id", b"second"))
    assert check_arrival(scope).flow_id == given


def test_of_two_credentials_neither_counts() -> None:
    scope = a_scope(authorization="Bearer one")
    assert check_arrival(scope).scope[CREDENTIAL] == b"Bearer one"
    scope = a_scope(authorization="Bearer one")
    scope["headers"].append((b"authorization", b"Bearer two"))
    assert check_arrival(scope).scope[CREDENTIAL] == b""


@pytest.mark.parametrize("given", [None, "", " ", " a", "a ", "a\tb", "a\x7f", "käse", "x" * (FLOW_ID_CHARS_MAX + 1)])
def test_unusable_flow_id_is_replaced_by_24_letters_and_digits(given: str | None) -> None:
    scope = a_scope() if given is None else a_scope(x_flow_id=given)
    made = [check_arrival(scope).flow_id for _ in range(100)]
    assert all(re.fullmatch("[0-9A-Za-z]{24}", each) for each in made)
    assert len(set(made)) == 100


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
def test_trailing_slash_of_a_path_is_ignored(path: str, root: str, goes_by: str) -> None:
    scope = a_scope(path, root=root)
    assert check_arrival(scope).scope["path"] == goes_by
    assert scope["path"] == path, "the server's own is left as it was"


@pytest.mark.parametrize("path", ["//", "/feeds//a", "/feeds/a//", "//version"])
def test_empty_segment_of_a_path_is_refused(path: str) -> None:
    refusal = check_arrival(a_scope(path)).refusal
    assert isinstance(refusal, BadParameter)
    assert (refusal.parameter, refusal.value) == ("path", path)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity", "ünknown"])
def test_encoded_body_is_refused_for_methods_but_post(method: str, encoding: str) -> None:
    refusal = check_arrival(a_scope(method=method, content_encoding=encoding)).refusal
    assert has_code("encoding-refused")(refusal)
    assert refusal.detail == f"{method} method doesn't support {encoding} content encoding"
    assert check_arrival(a_scope(method="POST", content_encoding=encoding)).refusal is None
    assert check_arrival(a_scope(method=method, accept_encoding=encoding)).refusal is None


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://hub.example.evil.example:8080"},
    {"origin": "http://hub.example"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "same-origin", "origin": "https://evil.example"},
    {"sec_fetch_site": "cross-site", "origin": "http://hub.example:8080"},
]
OWN = [
    {},
    {"origin": "http://hub.example:8080"},
    {"origin": "http://HUB.example:8080", "sec_fetch_site": "same-origin"},
    {"sec_fetch_site": "none"},
]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("headers", FOREIGN)
def test_request_of_a_page_of_another_origin_is_refused(headers: dict[str, str], method: str) -> None:
    refusal = check_arrival(a_scope("/feeds/a", method, host="hub.example:8080", **headers)).refusal
    assert has_code("cross-site")(refusal)


@pytest.mark.parametrize("headers", OWN)
def test_request_of_a_program_or_of_an_own_page_passes(headers: dict[str, str]) -> None:
    assert check_arrival(a_scope("/feeds/a", "POST", host="hub.example:8080", **headers)).refusal is None


def test_pages_of_others_may_link_to_pages_for_people() -> None:
    def follow(path: str, method: str = "GET") -> object:
        return check_arrival(a_scope(path, method, host="hub", sec_fetch_site="cross-site")).refusal

    assert follow("/docs") is follow("/") is follow("/console/groups") is None
    assert follow("/console/assets/app.js") is not None
    assert follow("/feeds/a") is not None
    assert follow("/docs", "POST") is not None


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "hub.localhost", "10.1.2.3"])
def test_local_hub_answers_under_names_of_the_machine(host: str) -> None:
    assert check_arrival(a_scope(host=host), names=()).refusal is None


@pytest.mark.parametrize("host", ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "hub"])
def test_local_hub_answers_under_no_other_name(host: str) -> None:
    """Which a page of others can have lead here."""
    assert has_code("foreign-host")(check_arrival(a_scope(host=host), names=()).refusal)
    assert check_arrival(a_scope(host=host)).refusal is None


@pytest.mark.parametrize(
    ("host", "passes"), [("hub.example", True), ("HUB.example:8080", True), ("a.hub.example", False)]
)
def test_hub_with_names_answers_under_these_and_those_of_the_machine(host: str, passes: bool) -> None:
    refusal = check_arrival(a_scope(host=host), names={"hub.example"}).refusal
    assert (refusal is None) == passes
    assert check_arrival(a_scope(host="localhost"), names={"hub.example"}).refusal is None


def test_name_that_a_page_reports_as_that_of_a_proxy_does_not_count() -> None:
    """A page that leads its own name here can set every header but Host."""
    scope = a_scope(host="evil.example:8080") | {ORIGIN: "https://hub.example"}
    assert has_code("foreign-host")(check_arrival(scope, names={"hub.example"}).refusal)
