"""The page of all routes in a real browser."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Request

from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub
from tests.browser.watching import Watched
from tests.served import client_of, create


@pytest.fixture
def watched(page: Page) -> Watched:
    return Watched(page)


def test_page_of_all_routes_lists_them_and_sends_what_one_tries_out(http: httpx2.Client, watched: Watched) -> None:
    name, page, origin = create(http).name, watched.page, str(http.base_url).rstrip("/")
    page.goto(f"{origin}/docs")
    page.get_by_role("link", name="Event types", exact=True).wait_for()
    paths = page.locator(".opblock-summary-path").evaluate_all("all => all.map((each) => each.dataset.path)")
    document = http.get("/openapi.json").json()
    assert sorted(paths) == sorted(path for path, methods in document["paths"].items() for _ in methods)

    operation = page.locator("#operations-Event_types-show_event_type")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_placeholder("event_type").fill(name)
    with page.expect_response(f"{origin}/event-types/{name}") as answered:
        operation.get_by_role("button", name="Execute").click()
    assert answered.value.status == 200
    operation.locator(".live-responses-table").get_by_text("Response headers").wait_for()
    watched.check(origin)


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx2.Client, str]]:
    """A client of a hub that knows callers by tokens, and a token."""
    url = f"sqlite:///{tmp_path_factory.mktemp('secured')}/hub.db"
    with live_hub(url, options=["--auth", "token", "--trusted-proxy", "127.0.0.1"]) as hub, client_of(hub) as http:
        direct = Hub(open_store(url))
        token = direct.admin.tokens.create(Caller("service", "reader")).secret
        direct.stop()
        yield http, token


@pytest.mark.exhaustive
def test_page_below_a_prefix_sends_the_token_that_one_enters(
    secured: tuple[httpx2.Client, str], browser: Browser, watched: Watched
) -> None:
    http, token = secured
    origin, page = str(http.base_url).rstrip("/"), watched.page

    def forward(route: Any, request: Request) -> None:
        """Do as a proxy that has the hub below /outer."""
        path = request.url.removeprefix(f"{origin}/outer")
        answer = http.request(
            request.method, path, headers={**request.headers, "x-forwarded-prefix": "/outer"}, content=request.post_data
        )
        left_out = ("content-encoding", "content-length", "transfer-encoding")
        headers = {key: value for key, value in answer.headers.items() if key not in left_out}
        route.fulfill(status=answer.status_code, headers=headers, body=answer.content)

    page.route(f"{origin}/outer/**", forward)
    page.goto(f"{origin}/outer/docs")
    page.get_by_role("button", name="Authorize").first.click()
    page.get_by_label("auth-bearer-value").fill(token)
    page.get_by_label("Apply credentials").click()
    page.get_by_role("button", name="Close").click()
    operation = page.locator("#operations-Event_types-list_event_types")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    with page.expect_response(f"{origin}/outer/event-types") as answered:
        operation.get_by_role("button", name="Execute").click()
    assert answered.value.status == 200
    assert json.loads(answered.value.text()) == []
    assert answered.value.request.headers["authorization"] == f"Bearer {token}"
    watched.check(f"{origin}/outer")
