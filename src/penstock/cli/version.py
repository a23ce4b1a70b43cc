"""`penstock version`: which versions are at work."""

from penstock.cli.options import OutputOption


def version(output: OutputOption = "text") -> None:
    """Tell the versions of Penstock and of what it runs on."""
    import platform
    import sqlite3

    from penstock import __version__
    from penstock.cli.output import print_json, say

    if output == "json":
        print_json({"penstock": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version})
    else:
        say(f"penstock {__version__} (Python {platform.python_version()}, SQLite {sqlite3.sqlite_version})")
