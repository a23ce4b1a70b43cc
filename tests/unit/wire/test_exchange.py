import pytest

from penstock.wire.exchange import ERROR_BYTES_MAX, Request, address, fetch
from tests.unit.wire.script import Reply, Script

GET = Request(method="GET", url="http://s/feed")


@pytest.mark.parametrize(
    ("base", "path", "query", "url"),
    [
        ("http://s", ("event-types", "a b/ø"), [], "http://s/event-types/a%20b%2F%C3%B8"),
        ("http://s/hub/", ("feeds",), [], "http://s/hub/feeds"),
        ("http://s/feed/?tenant=7", (), [("n", 4)], "http://s/feed/?tenant=7&n=4"),
        ("http://s/feed?tenant=7#top", ("events",), [("cursor0", "a&b=c+d é")], None),
        ("feed", ("events",), [], "feed/events"),
        ("", ("events",), [], "/events"),
    ],
)
def test_addresses_keep_what_they_have_and_escape_what_is_added(
    base: str, path: tuple[str, ...], query: list[tuple[str, object]], url: str | None
) -> None:
    assert address(base, *path, query=query) == (url or "http://s/feed/events?tenant=7&cursor0=a%26b%3Dc%2Bd+%C3%A9")


def test_a_whole_answer_is_put_together() -> None:
    answer = Script(Reply(200, b"x" * 100_000, {"a": "b"}, chunk_size=999)).play(fetch(GET))

    assert (answer.url, answer.status, answer.headers, answer.body) == (
        "http://s/feed",
        200,
        {"a": "b"},
        b"x" * 100_000,
    )


def test_an_error_is_not_read_without_end() -> None:
    answer = Script(Reply(500, b"x" * 10_000_000, chunk_size=4096)).play(fetch(GET))

    assert ERROR_BYTES_MAX <= len(answer.body) <= ERROR_BYTES_MAX + 4096
