"""The files of the console, read into memory once: nothing else below `/console` can be reached."""

import html
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
VENDOR: Final = _HERE / "vendor"
PAGE: Final = "index.html"
REQUIRED: Final = frozenset({"vendor/preact.js", "vendor/uplot.js", "vendor/uplot.css"})
"""The libraries without which the console does not run."""
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
"""The media types of the console's files, by the end of their names; files of other names are left out."""
COMPRESSED: Final = frozenset({".png", ".woff2"})
"""Files that compression does not make smaller."""
_BASE: Final = '<base href="/console/">'
_ASSETS: Final = '"assets/'


class ConsoleFile(NamedTuple):
    """A file of the console."""

    name: str
    """Its path below `/console/assets`, such as `views/groups.js`."""
    body: bytes
    media_type: str
    tag: str
    """The digest of the body."""

    @property
    def is_compressible(self) -> bool:
        """True if compression makes it smaller."""
        return not self.name.endswith(tuple(COMPRESSED))


class ConsoleFiles(NamedTuple):
    """The console as it is served: its page, and the files below `/console/assets`."""

    page: str
    files: Mapping[str, ConsoleFile]
    digest: str
    """The digest of all files. An address below `/console/assets/{digest}` never has other contents."""

    @property
    def missing(self) -> frozenset[str]:
        """The libraries that were not loaded; the console does not run without them."""
        return REQUIRED - self.files.keys()

    def find(self, path: str) -> tuple[ConsoleFile, bool] | None:
        """Return the file that *path* names, below `assets`, and whether *path* has its digest; None if there is none.

        A path with the digest of another version finds the file of this one, without the claim that it will not
        change: several hubs may serve behind one address while they are replaced.
        """
        if (file := self.files.get(path)) is not None:
            return file, False
        digest, _, rest = path.partition("/")
        file = self.files.get(rest)
        return None if file is None else (file, digest == self.digest)

    def render(self, base: str) -> ConsoleFile:
        """Return the page for a browser that reaches the console at *base*, a path that ends in a slash.

        Its links to `assets/…` get the digest, so that a browser keeps what they name.
        """
        text = self.page.replace(_BASE, f'<base href="{html.escape(base)}">')
        return _make_file(PAGE, text.replace(_ASSETS, f"{_ASSETS}{self.digest}/").encode())


@cache
def load_files(static: Path = STATIC, vendor: Path = VENDOR) -> ConsoleFiles:
    """Return the console's files in two folders, read once in a process."""
    files = {each.name: each for each in (*_read_all(static, ""), *_read_all(vendor, "vendor/"))}
    page = files.pop(PAGE).body.decode()
    assert _BASE in page, f"{PAGE} has no {_BASE}, in whose place the server writes where it is reached"
    whole = "".join(f"{name} {file.tag}\n" for name, file in files.items())
    return ConsoleFiles(page, files, _digest(whole.encode()))


def _read_all(folder: Path, prefix: str) -> Iterator[ConsoleFile]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in MEDIA_TYPES and path.is_file():
            yield _make_file(prefix + path.relative_to(folder).as_posix(), path.read_bytes())


def _make_file(name: str, body: bytes) -> ConsoleFile:
    return ConsoleFile(name, body, MEDIA_TYPES[Path(name).suffix], _digest(body))


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=12).hexdigest()
