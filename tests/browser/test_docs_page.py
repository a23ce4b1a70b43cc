"""The hub's own pages in a real browser."""

import httpx2
from playwright.sync_api import Page


def test_page_of_all_routes_lists_them_from_the_description(http: httpx2.Client, page: Page) -> None:
    page.goto(f"{http.base_url}/docs")
    page.get_by_text("GET /feeds/{event_type}/events", exact=True).wait_for()
