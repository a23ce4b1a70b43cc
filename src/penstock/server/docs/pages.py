"""The routes of the page that shows the HTTP interface to people, and of the files that it loads."""

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.browser_app import ASSETS, BrowserApp, answer_file, answer_page, load_app

DOCS: Final = "/docs"
_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
VENDOR: Final = _HERE / "vendor"
REQUIRED: Final = frozenset({"vendor/swagger-ui.js", "vendor/swagger-ui.css"})


def load_docs() -> BrowserApp:
    """Return the page with its files, read once in a process."""
    return load_app("The page of all routes", DOCS, STATIC, VENDOR, REQUIRED)


async def show_docs(request: Request) -> Response:
    """GET /docs: describe this interface to people."""
    return answer_page(request, load_docs())


async def show_docs_file(request: Request) -> Response:
    """GET /docs/{path}: send a file of the page for people, below `assets`."""
    path: str = request.path_params["path"]
    if not path:
        return await show_docs(request)
    answer = answer_file(request, load_docs(), path) if path.startswith(ASSETS) else None
    if answer is None:
        raise HTTPException(404)
    return answer
