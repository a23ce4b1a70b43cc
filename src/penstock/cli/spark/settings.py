"""The options that all commands of `penstock spark` share, and what is made of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from penstock.cli.failures import CommandFailure

MASTER: Final = "local[*]"
EventTypesArgument = Annotated[
    list[str], typer.Argument(metavar="EVENT_TYPE...", help="Whose feeds.", show_default=False)
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="PATH", help="Where to: a directory, or any path that Spark can write to.")
]
MasterOption = Annotated[
    str,
    typer.Option(
        envvar=["SPARK_REMOTE", "SPARK_MASTER"],
        metavar="URL",
        help="Where Spark is to run: local[*], spark://…, or a server of Spark Connect, sc://….",
    ),
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's. Repeatable.")
]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Where Spark's own words go; else they are kept only if it fails."),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A further option of the source. Repeatable."),
]
StartOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="PLACE", help="Where it begins at first: earliest, latest, a time, or JSON of offsets."
    ),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Go on as events come, until Ctrl-C.")]
GroupOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How `penstock groups` calls it; by default as its lake or its checkpoint."),
]
CheckpointOption = Annotated[
    str,
    typer.Option(metavar="PATH", help="Where it keeps how far it is: it goes on from there.", show_default=False),
]
LayoutOption = Annotated[
    Literal["raw", "stream-span", "summary"],
    typer.Option(help="Whether a record is an event, or has events of a stream as Propulsion writes them."),
]
PayloadOption = Annotated[
    str, typer.Option(metavar="json|typed|both", help="Events as JSON, as columns of their schema, or both.")
]


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return NAME=VALUE pairs as a mapping.

    Raises:
        BadParameter: one is none, or is a token, which the machine's list of processes would show.

    >>> pairs(["spark.ui.enabled=true", "a=b=c"], "--conf")
    {'spark.ui.enabled': 'true', 'a': 'b=c'}
    """
    found = {}
    for each in given or ():
        name, separator, value = each.partition("=")
        if not (name and separator):
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint=option)
        if name.strip().lower() == "token":
            advice = "a token here would show in the list of processes: use tokenFile=FILE, or --token-file for --url"
            raise typer.BadParameter(advice, param_hint=option)
        found[name.strip()] = value
    return found


def only(given: Mapping[str, str | None]) -> tuple[str, str]:
    """Return the one option that is *given*, with its value.

    Raises:
        BadParameter: none is, or several are.

    >>> only({"--kafka": None, "--hub": "http://localhost:8080"})
    ('--hub', 'http://localhost:8080')
    """
    found = [(option, value) for option, value in given.items() if value is not None]
    if len(found) != 1:
        raise typer.BadParameter("one of them must be given, and only one", param_hint=" / ".join(given))
    return found[0]


def check_there(path: str | None) -> None:
    """Raise Failure where *path* is one on this machine, and nothing is there; a pattern may meet something later."""
    if path is not None and ":/" not in path and not set("*?[{") & set(path) and not Path(path).exists():
        raise CommandFailure(
            f"there is nothing at {path}", "--files is a file, a directory of them, or a pattern of both."
        )


def absolute(path: str) -> str:
    """Return *path* so that it means the same to Spark's processes: one on this machine, from its root.

    >>> absolute("s3a://lake/orders"), absolute("file:/lake"), absolute("/lake")
    ('s3a://lake/orders', 'file:/lake', '/lake')
    """
    return path if ":/" in path else str(Path(path).absolute())
