"""The routes of the console: its page, and the files that the page loads."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import ConsoleNotFound
from penstock.server.console.files import ConsoleFile, ConsoleFiles
from penstock.server.http.encoding import choose_encoding, encoder
from penstock.server.http.responses import COMPRESSED_FROM_BYTES, link
from penstock.wire.query import make_printable

CONSOLE: Final = "/console"
ASSETS: Final = "assets/"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "font")),
        "img-src 'self' data:",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The Content Security Policy of the console: it runs the hub's scripts alone, and sends nothing elsewhere."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of all that is below `/console`."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASKS_AGAIN: Final = "no-cache"
_INCOMPLETE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Penstock</title>
<h1>The console is not complete</h1>
<p>This hub runs from a checkout in which the console's libraries are missing.
Run <code>make setup</code> there, and start the hub again. The hub itself works without them.</p>
</html>
"""


async def show_console(request: Request) -> Response:
    """GET /console: show the console, an app for browsers."""
    files = _files_of(request)
    if files.missing:
        return Response(_INCOMPLETE, 503, {**HEADERS, "Cache-Control": "no-store"}, "text/html")
    return _answer(request, files.render(link(request, f"{CONSOLE}/")), _ASKS_AGAIN)


async def show_console_file(request: Request) -> Response:
    """GET /console/{path}: send a file of the console, below `assets`; any other path shows the console itself."""
    path: str = request.path_params["path"]
    if path != ASSETS.rstrip("/") and not path.startswith(ASSETS):
        return await show_console(request)
    found = _files_of(request).find(path.removeprefix(ASSETS))
    if found is None:
        raise ConsoleNotFound.of("console-file-not-found", path=make_printable(path)[:200])
    file, is_fixed = found
    return _answer(request, file, _FOREVER if is_fixed else _ASKS_AGAIN)


def _files_of(request: Request) -> ConsoleFiles:
    """Return the files of the console.

    Raises:
        ConsoleNotFound: this hub serves no console.
    """
    files: ConsoleFiles | None = request.app.state.console
    if files is None:
        raise ConsoleNotFound
    return files


def _answer(request: Request, file: ConsoleFile, cache_control: str) -> Response:
    """Return *file*, or that it has not changed since the browser got it."""
    is_large = file.is_compressible and len(file.body) >= COMPRESSED_FROM_BYTES
    encoding = choose_encoding(request.headers.get("accept-encoding")) if is_large else None
    tag = f'"{file.tag}"' if encoding is None else f'"{file.tag}-{encoding}"'
    headers = {**HEADERS, "Cache-Control": cache_control, "ETag": tag, "Vary": "Accept-Encoding"}
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if encoding is None:
        return Response(file.body, headers=headers, media_type=file.media_type)
    return Response(_compress(file, encoding), 200, {**headers, "Content-Encoding": encoding}, file.media_type)


@lru_cache(maxsize=1_000)
def _compress(file: ConsoleFile, encoding: str) -> bytes:
    encode = encoder(encoding)
    return encode.compress(file.body) + encode.flush()
