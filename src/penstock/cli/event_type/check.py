"""`penstock event-type check`: holds definitions in files against the event guidelines, and against a hub."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.event_type.files import FilesArgument, read
from penstock.cli.options import checked_url

if TYPE_CHECKING:
    from penstock.cli.event_type.checked import Check, CheckedDefinition


def _checked_url(url: str | None) -> str | None:
    return None if url is None else checked_url(url)


def check(
    files: FilesArgument,
    *,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Also tell what they would do to the event types of the hub there, and who reads those.",
            callback=_checked_url,
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json", "sarif"],
        typer.Option(
            "--output",
            "-o",
            envvar="PENSTOCK_OUTPUT",
            help="text is for people, json for programs, sarif for tools that show findings beside the lines.",
        ),
    ] = "text",
) -> None:
    """Check definitions of event types before anything is registered; needs no hub.

    Each has to be one that a hub takes, and is held against the event guidelines. It ends with 1 where one is not, or
    where a MUST is not kept and not waived: an annotation `penstock.waiver/GUIDELINE` waives one, and gives the reason.
    """
    from penstock.cli.event_type.checked import Check, checked

    found, unreadable = read(files)
    definitions = checked(found)
    if against is not None:
        definitions = _with_what_is_registered(against, definitions)
    done = Check(tuple(definitions), tuple(unreadable))
    _print(done, output)
    if not done.is_good:
        raise typer.Exit(1)


def _with_what_is_registered(url: str, definitions: "list[CheckedDefinition]") -> "list[CheckedDefinition]":
    from penstock.cli.event_type.against import against
    from penstock.cli.failures import CommandFailure
    from penstock.cli.hub import open_client
    from penstock.errors import Unreachable

    try:
        with open_client(url, retry_timeout=0) as client:
            return [
                each if each.faults else replace(each, against=against(url, client, each.definition.value))
                for each in definitions
            ]
    except Unreachable as error:
        if error.code == "proxy-unreachable":
            raise
        raise CommandFailure(
            error.detail, "Is the hub running? Name another one with --against, or check without."
        ) from error


def _print(done: "Check", output: str) -> None:
    from penstock.cli.event_type.report import as_object, show
    from penstock.cli.output import print_json

    if output == "sarif":
        from penstock.cli.event_type.sarif import sarif

        print_json(sarif(done))
    elif output == "json":
        print_json(as_object(done))
    else:
        show(done)
