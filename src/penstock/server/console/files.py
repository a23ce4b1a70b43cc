"""The files of the console: nothing else below `/console` can be reached."""

from pathlib import Path
from typing import Final

from penstock.server.http.browser_app import BrowserApp, load_app

CONSOLE: Final = "/console"
_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
VENDOR: Final = _HERE / "vendor"
REQUIRED: Final = frozenset({"vendor/preact.js", "vendor/uplot.js", "vendor/uplot.css"})
"""The libraries without which the console does not run."""


def load_files(static: Path = STATIC, vendor: Path = VENDOR) -> BrowserApp:
    """Return the console with the files in two folders, read once in a process."""
    return load_app("The console", CONSOLE, static, vendor, REQUIRED)
