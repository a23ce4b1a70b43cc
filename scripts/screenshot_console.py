"""Takes the pictures of the console in `docs/guides/console`, of a hub with the demo's data.

    .venv/bin/penstock demo --secure --serve
    .venv/bin/python scripts/screenshot_console.py https://127.0.0.1:PORT --token-file penstock-demo/tokens/operator

The system's Chromium draws each page in both themes. An error of its scripts is one of this script, too.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, ViewportSize, sync_playwright

TO: Final = Path(__file__).parent.parent / "docs" / "guides" / "console"
FLIGHTS: Final = "event-types/flights.departed"
PAGES: Final = {
    "overview": "",
    "event-types": "event-types",
    "event-type": FLIGHTS,
    "schema": f"{FLIGHTS}/schema",
    "events": f"{FLIGHTS}/events",
    "event": f"{FLIGHTS}/events?event=0:0",
    "live-tail": f"{FLIGHTS}/events?view=live",
    "publish": f"{FLIGHTS}/events?view=publish",
    "event-type-consumers": f"{FLIGHTS}/consumers",
    "event-type-producers": f"{FLIGHTS}/producers",
    "event-type-settings": f"{FLIGHTS}/settings",
    "new-event-type": "new-event-type",
    "consumers": "consumers",
    "consumer": "consumers/lake:flights",
    "consumer-history": "consumers/lake:flights/history",
    "producers": "producers",
    "outbox": "outbox",
    "cold-tier": "cold-tier",
    "settings": "settings",
    "tokens": "tokens",
    "audit-log": "audit-log",
}
"""The addresses of the pages below `/console`, by the names of their pictures."""
NARROW: Final = {"overview-narrow": "", "consumers-narrow": "consumers", "event-narrow": PAGES["event"]}
"""Those that are also drawn at the width of a phone."""
LIVE: Final = {"overview", "consumers", "consumer", "overview-narrow", "consumers-narrow"}
"""Those that show rates, and are left alone for `LIVE_SECONDS`; the others for `SETTLED_SECONDS`."""
LIVE_SECONDS: Final = 24
SETTLED_SECONDS: Final = 2
PUBLISHED: Final = 6
"""So many events are published while the overview and the live tail are drawn."""
WIDE: Final[ViewportSize] = {"width": 1280, "height": 800}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}


class Hub:
    """The hub whose console is drawn, as the browser reaches it."""

    def __init__(self, page: Page, url: str, token: str | None) -> None:
        """Call it as *page* does, by the *token*."""
        self.url = url
        self._request = page.request
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._feed = f"{url}/feeds/{FLIGHTS.rpartition('/')[2]}"

    def publish_again(self) -> None:
        """Publish the first flights once more."""
        count = self._request.get(f"{self.url}/{FLIGHTS}", headers=self._headers).json()["partition_count"]
        page = f"{self._feed}?n={count}&cursor0=_first&pagesizehint={PUBLISHED}"
        read = self._request.get(page, headers=self._headers)
        lines = [line for line in map(json.loads, read.text().splitlines()) if "data" in line]
        body = "".join(json.dumps({"data": line["data"]}) + "\n" for line in lines)
        headers = self._headers | {"Content-Type": "application/x-ndjson"}
        answer = self._request.post(self._feed, headers=headers, data=body)
        if not answer.ok:
            sys.exit(f"the hub refuses its own events: {answer.text()}")


def take(page: Page, hub: Hub, theme: str) -> None:
    """Draw all pages in one theme."""
    for name, address in (PAGES | NARROW).items():
        page.set_viewport_size(PHONE if name in NARROW else WIDE)
        page.goto(f"{hub.url}/console/{address}")
        page.locator("main h1").wait_for()
        if "event=" in address:
            page.get_by_role("button", name="Copy link").wait_for()
        if address.endswith("view=live"):
            page.get_by_text("following").wait_for()
            hub.publish_again()
            page.get_by_text(f"{PUBLISHED} events since it began").wait_for()
        for second in range(LIVE_SECONDS if name in LIVE else SETTLED_SECONDS):
            if name == "overview" and second % 3 == 0:
                hub.publish_again()
            page.wait_for_timeout(1_000)
        page.get_by_text("Loading …").first.wait_for(state="detached")
        page.screenshot(path=TO / f"{name}-{theme}.png")


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--token-file", type=Path)
    given = parser.parse_args()
    TO.mkdir(exist_ok=True)
    errors: list[str] = []
    token = None if given.token_file is None else given.token_file.read_text().strip()
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        for theme in ("light", "dark"):
            context = browser.new_context(color_scheme=theme, ignore_https_errors=True)
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            if token is not None:
                page.goto(f"{given.url}/console")
                page.get_by_label("Token").fill(token)
                page.get_by_role("button", name="Sign in").click()
                page.get_by_role("heading", name="Overview").wait_for()
            take(page, Hub(page, given.url, token), theme)
        browser.close()
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
