"""The options that several commands share."""

from typing import Annotated, Final, Literal

import typer

from penstock.cli.database_url import checked_database

Output = Literal["text", "json"]

DATABASE: Final = "sqlite:///penstock.db"
URL: Final = "http://127.0.0.1:8080"


def checked_url(url: str) -> str:
    """Return *url* if it is an address that can be asked.

    Raises:
        BadParameter: it is none that begins with http:// or https://.
    """
    from penstock.errors import BadParameter
    from penstock.wire.http import check_address

    try:
        return check_address(url)
    except BadParameter as error:
        raise typer.BadParameter(f"{error.value!r} is not {error.allowed}") from error


DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="PENSTOCK_DATABASE",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        callback=checked_database,
    ),
]
UrlOption = Annotated[
    str, typer.Option("--url", envvar="PENSTOCK_URL", help="The hub's address.", callback=checked_url)
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", envvar="PENSTOCK_OUTPUT", help="text is for people, json for programs.")
]
