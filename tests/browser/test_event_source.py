"""A browser's EventSource reads feeds: over restarts of the hub, of another origin, and behind nginx."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.port import free_port
from tests.conformance.http.nginx import nginx
from tests.served import Served, client_of, create

GUIDE: Final = Path(__file__).parents[2] / "docs/guides/browsers.md"
# The pages are opened at /version: a page of the hub's origin that allows all.
OPEN: Final = """
([url, names]) => new Promise((resolve) => {
  window.seen = [];
  window.problems = [];
  const note = (message) => window.seen.push([message.type, JSON.parse(message.data).id]);
  window.source = new EventSource(url);
  for (const name of ["message", ...names]) window.source.addEventListener(name, note);
  window.source.addEventListener("penstock-problem", (message) => window.problems.push(JSON.parse(message.data).type));
  window.source.onopen = resolve;
})
"""

KEEP_SOURCE: Final = """
window.EventSource = class extends EventSource { constructor(...given) { super(...given); window.source = this; } };
"""


def read(page: Page, url: str, *names: str) -> None:
    """Begin to read with an EventSource, which listens for messages of these *names*; return once it is open."""
    page.evaluate(OPEN, [url, names])


def wait_for_events(page: Page, count: int) -> list[tuple[str, int]]:
    """Return the names and the ids of the messages that the page has seen, once there are *count*."""
    page.wait_for_function("(count) => window.seen.length >= count", arg=count)
    return [(name, number) for name, number in page.evaluate("window.seen")]


@contextmanager
def served(url: str, partitions: int = 1, **options: Any) -> Iterator[tuple[LiveHub, Served]]:
    with live_hub(url, **options) as hub, client_of(hub) as http:
        yield hub, create(http, partitions)


def test_event_source_reads_each_event_once_over_restarts_of_the_hub(migrated_url: str, page: Page) -> None:
    with served(migrated_url, 2) as (hub, feed):
        page.goto(f"{hub.url}/version")
        read(page, f"{feed.path}?n=2&unnamed=1")
        numbers = iter(range(1_000_000))

        def publish(count: int) -> None:
            for number in (next(numbers) for _ in range(count)):
                feed.publish_ids([number], partition=number % 2)

        publish(10)
        wait_for_events(page, 4)
        hub.stop()
        hub.start()
        publish(10)
        wait_for_events(page, 15)
        publish(5)
        hub.kill()
        hub.start()
        publish(10)
        found = [number for _, number in wait_for_events(page, 35)]
    assert [each for each in found if each % 2 == 0] == list(range(0, 35, 2))
    assert [each for each in found if each % 2 == 1] == list(range(1, 35, 2))


def test_event_source_that_saw_no_event_yet_goes_on_where_it_began(sqlite_url: str, page: Page) -> None:
    with served(sqlite_url) as (hub, feed):
        page.goto(f"{hub.url}/version")
        read(page, f"{feed.path}?unnamed=1")
        hub.stop()
        hub.start()
        feed.publish_ids([1])  # Before the browser is back.
        assert wait_for_events(page, 1) == [("message", 1)]


def test_messages_are_named_by_kind_and_a_dropped_feed_ends_the_source_with_a_problem(feed: Served, page: Page) -> None:
    page.goto(f"{feed.http.base_url}/version")
    kinds = ["order.åpnet", "message"]
    feed.publish_lines({"data": {"id": at}, "headers": {"ce_type": kind}} for at, kind in enumerate(kinds))
    read(page, f"{feed.path}?cursor0=_first", kinds[0])
    assert wait_for_events(page, 2) == [(kinds[0], 0), (kinds[1], 1)]
    feed.drop()
    page.wait_for_function("() => window.source.readyState === EventSource.CLOSED")
    assert page.evaluate("window.problems") == ["urn:penstock:problem:event-type-not-found"]


def test_page_of_an_allowed_origin_alone_reads_a_feed(sqlite_url: str, page: Page) -> None:
    port = free_port()
    with served(sqlite_url, port=port, options=["--cors-origin", f"http://localhost:{port}"]) as (hub, feed):
        feed.publish_ids([1, 2])
        page.goto(f"http://localhost:{port}/version")
        read(page, f"{hub.url}{feed.path}?cursor0=_first&unnamed=1")
        assert wait_for_events(page, 2) == [("message", 1), ("message", 2)]
        tag = "([url, init]) => fetch(url, init).then((answer) => answer.headers.get('etag'))"
        history = f"{hub.url}{feed.path}?n=1&cursor0=_first&pagesizehint=1"
        # The header has the browser ask first.
        assert page.evaluate(tag, [history, {"headers": {"X-Flow-Id": "page"}, "credentials": "include"}])
        page.goto(f"http://other.localhost:{port}/version")
        refused = page.evaluate("(url) => fetch(url).then(() => 'read', () => 'refused')", history)
        assert refused == "refused"


def test_page_of_the_guide_reads_through_nginx_over_a_restart_of_the_hub(sqlite_url: str, page: Page) -> None:
    """Nginx answers 502 meanwhile, upon which browsers give up: the page opens its source again."""
    (script,) = re.findall(r"```js\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    with served(sqlite_url) as (hub, feed), nginx(hub.port) as proxy:
        page.add_init_script(KEEP_SOURCE)
        page.goto(f"http://127.0.0.1:{proxy.whole}/version")
        script = script.replace("/feeds/order.placed", feed.path)
        page.evaluate(f"async () => {{ window.seen = []; const show = (event) => seen.push(event.id); {script} }}")
        feed.publish_ids(range(3))
        page.wait_for_function("() => window.seen.length === 3")
        hub.stop()
        page.wait_for_function("() => window.source.readyState === EventSource.CLOSED")
        hub.start()
        feed.publish_ids(range(3, 6))
        page.wait_for_function("() => window.seen.length === 6")
        assert page.evaluate("window.seen") == list(range(6))
