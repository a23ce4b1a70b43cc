"""Apps for browsers: a page, and the files that it loads from the hub, which are read into memory once."""

import html
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.encoding import choose_encoding, encoder
from penstock.server.http.responses import COMPRESSED_FROM_BYTES, link

PAGE: Final = "index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
"""The media types of the files, by the end of their names; files of other names are left out."""
COMPRESSED: Final = frozenset({".png", ".woff2"})
"""Files that compression does not make smaller."""
ASSETS: Final = "assets/"
_ASSETS: Final = f'"{ASSETS}'
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
"""The Content Security Policy of an app: it runs the hub's scripts alone, and sends nothing elsewhere."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of an app's page and files."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASKS_AGAIN: Final = "no-cache"
_INCOMPLETE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Penstock</title>
<h1>{title} is not complete</h1>
<p>This hub runs from a checkout in which libraries for browsers are missing.
Run <code>make setup</code> there, and start the hub again. The hub itself works without them.</p>
</html>
"""


class BrowserFile(NamedTuple):
    """A file of an app."""

    name: str
    """Its path below `assets`, such as `views/groups.js`."""
    body: bytes
    media_type: str
    tag: str
    """The digest of the body."""

    @property
    def is_compressible(self) -> bool:
        """True if compression makes it smaller."""
        return not self.name.endswith(tuple(COMPRESSED))


class BrowserApp(NamedTuple):
    """An app as it is served: its page, and the files below its `assets`. No other file can be reached."""

    title: str
    """What it is, at the beginning of a sentence."""
    path: str
    """The path of its page at the hub, such as `/console`."""
    page: str
    files: Mapping[str, BrowserFile]
    required: frozenset[str]
    """The libraries without which it does not run."""
    digest: str
    """The digest of all files. An address below `assets/{digest}` never has other contents."""

    @property
    def missing(self) -> frozenset[str]:
        """The libraries that were not loaded; the app does not run without them."""
        return self.required - self.files.keys()

    def find(self, path: str) -> tuple[BrowserFile, bool] | None:
        """Return the file that *path* names, below `assets`, and whether *path* has its digest; None if there is none.

        A path with the digest of another version finds the file of this one, without the claim that it will not
        change: several hubs may serve behind one address while they are replaced.
        """
        if (file := self.files.get(path)) is not None:
            return file, False
        digest, _, rest = path.partition("/")
        file = self.files.get(rest)
        return None if file is None else (file, digest == self.digest)

    def render(self, base: str) -> BrowserFile:
        """Return the page for a browser that reaches the app at *base*, a path that ends in a slash.

        Its links to `assets/…` get the digest, so that a browser keeps what they name.
        """
        text = self.page.replace(_own_address(self.path), f'<base href="{html.escape(base)}">')
        return _make_file(PAGE, text.replace(_ASSETS, f"{_ASSETS}{self.digest}/").encode())


@cache
def load_app(title: str, path: str, static: Path, vendor: Path, required: frozenset[str]) -> BrowserApp:
    """Return the app at *path* with the files of two folders, read once in a process.

    Those of *vendor*, which are libraries of others, are below `assets/vendor`.
    """
    files = {each.name: each for each in (*_read_all(static, ""), *_read_all(vendor, "vendor/"))}
    page, base = files.pop(PAGE).body.decode(), _own_address(path)
    assert base in page, f"{PAGE} has no {base}, in whose place the server writes where it is reached"
    whole = "".join(f"{name} {file.tag}\n" for name, file in files.items())
    return BrowserApp(title, path, page, files, required, _digest(whole.encode()))


def _own_address(path: str) -> str:
    return f'<base href="{path}/">'


def _read_all(folder: Path, prefix: str) -> Iterator[BrowserFile]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in MEDIA_TYPES and path.is_file():
            yield _make_file(prefix + path.relative_to(folder).as_posix(), path.read_bytes())


def _make_file(name: str, body: bytes) -> BrowserFile:
    return BrowserFile(name, body, MEDIA_TYPES[Path(name).suffix], _digest(body))


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=12).hexdigest()


def answer_page(request: Request, app: BrowserApp) -> Response:
    """Return the page of *app*, or a page that says that its libraries are missing."""
    if app.missing:
        text = _INCOMPLETE.format(title=app.title)
        return Response(text, 503, {**HEADERS, "Cache-Control": "no-store"}, "text/html")
    return _answer(request, app.render(link(request, f"{app.path}/")), _ASKS_AGAIN)


def answer_file(request: Request, app: BrowserApp, path: str) -> Response | None:
    """Return the file of *app* that *path* names, which begins with `assets/`; None if there is none."""
    found = app.find(path.removeprefix(ASSETS))
    if found is None:
        return None
    file, is_fixed = found
    return _answer(request, file, _FOREVER if is_fixed else _ASKS_AGAIN)


def _answer(request: Request, file: BrowserFile, cache_control: str) -> Response:
    """Return *file*, or that it has not changed since the browser got it."""
    is_large = file.is_compressible and len(file.body) >= COMPRESSED_FROM_BYTES
    encoding = choose_encoding(request.headers.get("accept-encoding")) if is_large else None
    tag = f'"{file.tag}"' if encoding is None else f'"{file.tag}-{encoding}"'
    headers = {**HEADERS, "Cache-Control": cache_control, "ETag": tag, "Vary": "Accept-Encoding"}
    if _is_known(tag, request.headers.getlist("if-none-match")):
        return Response(status_code=304, headers=headers)
    if encoding is None:
        return Response(file.body, headers=headers, media_type=file.media_type)
    return Response(_compress(file, encoding), 200, {**headers, "Content-Encoding": encoding}, file.media_type)


def _is_known(tag: str, conditions: Iterable[str]) -> bool:
    known = {each.strip().removeprefix("W/") for each in ",".join(conditions).split(",")}
    return tag in known or "*" in known


@lru_cache(maxsize=1_000)
def _compress(file: BrowserFile, encoding: str) -> bytes:
    encode = encoder(encoding)
    return encode.compress(file.body) + encode.flush()
