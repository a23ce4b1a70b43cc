"""Takes the pictures of the console in `docs/guides/console`, of a hub with the demo's data.

    .venv/bin/penstock demo --secure --serve
    .venv/bin/python scripts/screenshot_console.py https://127.0.0.1:PORT --token-file penstock-demo/tokens/operator

The system's Chromium draws each page in both themes. An error of its scripts is one of this script, too.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

TO: Final = Path(__file__).parent.parent / "docs" / "guides" / "console"
FLIGHTS: Final = "event-types/flights.departed"
PAGES: Final = {
    "overview": "",
    "event-types": "event-types",
    "event-type": FLIGHTS,
    "schema": f"{FLIGHTS}/schema",
    "events": f"{FLIGHTS}/events",
    "consumers": "consumers",
    "consumer": "consumers/lake:flights",
    "producers": "producers",
    "outbox": "outbox",
    "cold-tier": "cold-tier",
    "settings": "settings",
    "tokens": "tokens",
    "audit-log": "audit-log",
}
"""The addresses of the pages below `/console`, by the names of their pictures."""
RATES_MS: Final = 14_000
"""How long the overview is left alone, so that it has rates to show."""


def take(page: Page, url: str, theme: str) -> None:
    """Draw all pages in one theme."""
    for name, address in PAGES.items():
        page.goto(f"{url}/console/{address}")
        page.locator("main h1").wait_for()
        page.wait_for_timeout(RATES_MS if name == "overview" else 2_000)
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
    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program)
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 800}, color_scheme=theme, ignore_https_errors=True
            )
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            if given.token_file is not None:
                page.goto(f"{given.url}/console")
                page.get_by_label("Token").fill(given.token_file.read_text().strip())
                page.get_by_role("button", name="Sign in").click()
                page.get_by_role("heading", name="Overview").wait_for()
            take(page, given.url, theme)
        browser.close()
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
