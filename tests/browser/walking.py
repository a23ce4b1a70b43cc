"""Ways through the console that journeys have in common."""

import time
from datetime import UTC, datetime, timedelta

import httpx2
from playwright.sync_api import Page

from tests.served import until

GO = """(address) => {
  const show = (place) => new Promise((drawn) => {
    history.pushState(null, "", place);
    dispatchEvent(new Event("penstock:place"));
    requestAnimationFrame(() => setTimeout(drawn));
  });
  return show(`${document.baseURI}nowhere`).then(() => show(address));
}"""


def go(page: Page, address: str) -> None:
    """Go from one page of the console to the beginning of another, as its links do: no script is loaded again."""
    page.evaluate(GO, address)


def next_moment() -> datetime:
    """Return a time that comes after all events published so far, and before those published later.

    It is whole in milliseconds, as the times of browsers are.
    """
    millis = time.time_ns() // 1_000_000 + 1
    until(lambda: time.time_ns() >= millis * 1_000_000)
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=millis)


def walk_to_event_type(page: Page, http: httpx2.Client, name: str, tab: str = "Overview") -> None:
    """Go from the overview to a tab of an event type, as somebody does who knows its name."""
    page.goto(f"{http.base_url}/console")
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Event types").click()
    page.get_by_label("Search").fill(name)
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("navigation", name=f"Pages of {name}").get_by_role("link", name=tab).click()


def sign_in(page: Page, token: str) -> None:
    """Sign in on the page that asks for a token."""
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Console").wait_for()
