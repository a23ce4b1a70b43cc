"""`penstock new`: a small tested project to begin with."""

import keyword
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Kind = Literal["projector", "reactor", "ingester", "forwarder"]

SUFFIX: Final = ".template"
PROJECT: Final = "project"
"""Where the files are that all projects have."""
PACKAGE: Final = "package"
"""The name of the folder that becomes the project's package."""
SHOWN_MAX: Final = 100
"""Maximum number of characters of an invalid name that are shown."""
_DESCRIPTIONS: Final[dict[Kind, str]] = {
    "projector": "Folds the events of a feed into a table.",
    "reactor": "Reacts to the events of one feed by publishing to another.",
    "ingester": "Publishes what has changed in a list that somebody keeps elsewhere.",
    "forwarder": "Hands the events of a feed on to another service.",
}
KindArgument = Annotated[
    Kind,
    typer.Argument(
        help="projector: a feed into a table. reactor: from one feed to another. ingester: a list into a feed. "
        "forwarder: a feed to another service."
    ),
]
DirectoryArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Where; the project is called as it is. It must not be there, or be empty."),
]


def new(kind: KindArgument, directory: DirectoryArgument) -> None:
    """Make a small tested project that processes events: a handler, what runs it, and its tests.

    Nothing is overwritten.
    """
    from string import Template

    from penstock import __version__
    from penstock.cli.output import say

    target = directory.absolute()
    package = _package_name(target.name)
    _check_empty(target, directory)
    words = {
        "project": package.replace("_", "-"),
        PACKAGE: package,
        "description": _DESCRIPTIONS[kind],
        "version": __version__,
    }
    texts = {
        "/".join(package if part == PACKAGE else part for part in place): Template(text).substitute(words)
        for place, text in _templates(kind)
    }
    _write(target, texts)
    say(f"{directory} has {len(texts)} files:")
    for name in sorted(texts):
        say(f"  {name}")
    say("Next:")
    for line in (
        f"cd {shlex.quote(str(directory))}",
        "python -m venv .venv",
        ".venv/bin/pip install '/path/to/penstock[arrow]'  # A checkout: penstock-hub is on no package index yet.",
        ".venv/bin/pip install -e '.[dev]'",
        ".venv/bin/pytest",
    ):
        say(f"  {line}")
    say(f"README.md says how to run it; what it does is in {package}/{kind}.py.")


def _package_name(name: str) -> str:
    """Return the package name of a project in a directory of that *name*.

    Raises:
        CommandFailure: it would be no valid name, or that of another package.
    """
    from penstock.cli.failures import MISUSED, CommandFailure

    package = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
    hint = "The project is called as its directory: choose another, such as order-totals."
    if not package.isidentifier() or keyword.iskeyword(package):
        raise CommandFailure(f"{name!r} does not give a name for a Python package", hint, status=MISUSED)
    if package in sys.stdlib_module_names or package in {"test", "tests"} or _is_installed(package):
        raise CommandFailure(f"a package {package!r} would stand in the way of another one", hint, status=MISUSED)
    return package


def _is_installed(package: str) -> bool:
    """Tell whether there is such a package; a mere directory of that name is none."""
    found = find_spec(package)
    return found is not None and found.origin is not None


def _check_empty(target: Path, shown: Path) -> None:
    """Raise Failure where there is something already, or nothing can be."""
    from penstock.cli.failures import MISUSED, CommandFailure

    try:
        is_file = target.exists() and not target.is_dir()
        is_empty = is_file or not target.is_dir() or not any(target.iterdir())
    except OSError as error:  # Such as a name that is too long.
        hint = "Name a directory that is empty, or not there yet."
        raise CommandFailure(
            f"{str(shown)[:SHOWN_MAX]} cannot be used: {error.strerror}", hint, status=MISUSED
        ) from error
    if is_file:
        raise CommandFailure(f"{shown} is a file", "Name a directory that is empty, or not there yet.")
    if not is_empty:
        raise CommandFailure(f"{shown} is not empty, and nothing was written", "Name one that is, or is not there yet.")


def _write(target: Path, texts: Mapping[str, str]) -> None:
    """Write files by their names below *target*.

    Raises:
        CommandFailure: one cannot be written.
    """
    from penstock.cli.failures import CommandFailure

    try:
        for name, text in texts.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailure(f"{error.filename} cannot be written: {error.strerror}") from error


def _templates(kind: Kind) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place and the text of each file of a kind."""
    from importlib.resources import files

    root = files("penstock.cli") / "templates"
    for name in (PROJECT, kind):
        yield from _below(root / name, ())


def _below(folder: "Traversable", place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for found in folder.iterdir():
        if found.is_dir():
            yield from _below(found, (*place, found.name))
        elif found.name.endswith(SUFFIX):
            yield (*place, found.name.removesuffix(SUFFIX)), found.read_text(encoding="utf-8")
