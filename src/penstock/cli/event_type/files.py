"""The files that commands are given, with definitions in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.cli.definition.definition import Definition
    from penstock.cli.definition.document import Unreadable

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Definitions in YAML or JSON, one or many a file; - is stdin.")
]


def read(files: Sequence[Path]) -> "tuple[list[Definition], list[Unreadable]]":
    """Return the definitions in *files*, and what is wrong with those that cannot be understood.

    Raises:
        BadParameter: a file is not there, or cannot be read at all.
    """
    from penstock.cli.definition.definition import definitions

    try:
        return definitions(files)
    except OSError as error:
        name = error.filename or "standard input"
        raise typer.BadParameter(f"{name} cannot be read: {error.strerror}", param_hint="FILE") from error
