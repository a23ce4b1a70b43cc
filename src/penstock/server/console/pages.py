"""The routes of the console: its page, and the files that the page loads. Nothing else below `/console` is served."""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import ConsoleNotFound
from penstock.server.http.browser_app import ASSETS, BrowserApp, answer_file, answer_page, load_app
from penstock.wire.query import make_printable

CONSOLE: Final = "/console"
_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
VENDOR: Final = _HERE / "vendor"
REQUIRED: Final = frozenset({"vendor/preact.js", "vendor/uplot.js", "vendor/uplot.css"})
"""The libraries without which the console does not run."""


def load_console(static: Path = STATIC, vendor: Path = VENDOR) -> BrowserApp:
    """Return the console with the files in two folders, read once in a process."""
    return load_app("The console", CONSOLE, static, vendor, REQUIRED)


async def show_console(request: Request) -> Response:
    """GET /console: show the console, an app for browsers."""
    return answer_page(request, _find_console(request))


async def show_console_file(request: Request) -> Response:
    """GET /console/{path}: send a file of the console, below `assets`; any other path shows the console itself."""
    path: str = request.path_params["path"]
    if path != ASSETS.rstrip("/") and not path.startswith(ASSETS):
        return await show_console(request)
    answer = answer_file(request, _find_console(request), path)
    if answer is None:
        raise ConsoleNotFound.of("console-file-not-found", path=make_printable(path)[:200])
    return answer


def _find_console(request: Request) -> BrowserApp:
    """Return the console.

    Raises:
        ConsoleNotFound: this hub serves no console.
    """
    console: BrowserApp | None = request.app.state.console
    if console is None:
        raise ConsoleNotFound
    return console
