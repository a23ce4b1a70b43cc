"""Watches what a page does besides what one sees: whom it asks, and of what the browser complains."""

from playwright.sync_api import Page, Request


class Watched:
    """A page that notes to whom it turns, and of what its console complains."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        page.on(
            "console", lambda told: self.complaints.append(told.text) if told.type in ("error", "warning") else None
        )
        page.on("request", lambda each: self.requests.append(each))  # noqa: PLW0108 - Playwright takes no builtin
        page.add_init_script(
            "window.violations = []; document.addEventListener('securitypolicyviolation', (event) =>"
            " window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));"
        )

    def check(self, origin: str) -> None:
        """Check that nobody but *origin* was asked for anything, and that nothing was complained of."""
        elsewhere = {each.url for each in self.requests if not each.url.startswith((f"{origin}/", "data:"))}
        assert elsewhere == set()
        assert self.page.evaluate("window.violations") == []
        assert self.complaints == []
