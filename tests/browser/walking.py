"""Ways through the console that journeys have in common."""

import httpx2
from playwright.sync_api import Page


def walk_to_event_type(page: Page, http: httpx2.Client, name: str, tab: str = "Overview") -> None:
    """Go from the overview to a tab of an event type, as somebody does who knows its name."""
    page.goto(f"{http.base_url}/console")
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Event types").click()
    page.get_by_label("Search").fill(name)
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("navigation", name=f"Pages of {name}").get_by_role("link", name=tab).click()
