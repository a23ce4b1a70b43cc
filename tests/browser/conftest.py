"""Fixtures of the tests of pages: the system's Chromium, and a hub on each database.

Playwright's event loop runs in the thread of the tests while the browser is there, so that they cannot run another one.
"""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.served import either_http, feed, feed4, http, postgres_hub, sqlite_hub

__all__ = ["either_http", "feed", "feed4", "http", "postgres_hub", "sqlite_hub"]

TIMEOUT_MS = 120_000.0
"""The limit of each wait for the page."""
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""What may drive the pages. The first, which has their engine alone, takes a third of the time to open one."""
LOCKED_DOWN = ("--disable-background-networking", "--disable-component-update", "--no-first-run")
"""The browser asks nobody but the hub."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A Chromium without a window, for all tests of pages that the process runs one after the other.

    Raises:
        FileNotFoundError: Chromium is not installed; says what to do.
    """
    program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if program is None:
        raise FileNotFoundError("Chromium is not installed: make system, or on Debian apt-get install chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=LOCKED_DOWN)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page with storage of its own. An error that its scripts do not catch fails the test."""
    errors: list[Error] = []
    with browser.new_context(ignore_https_errors=True, permissions=["clipboard-write"]) as context:
        context.set_default_timeout(TIMEOUT_MS)
        opened = context.new_page()
        opened.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108 - Playwright takes no builtin
        yield opened
    assert errors == []
