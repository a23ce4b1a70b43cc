"""How commands reach a hub: with the credential that the environment or `--token-file` names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from penstock.client import Client

TOKEN: Final = "PENSTOCK_TOKEN"  # noqa: S105 - the name of a variable
TokenFileOption = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        envvar="PENSTOCK_TOKEN_FILE",
        metavar="FILE",
        help=f"A file with the token that the hub asks for. {TOKEN} may have the token itself.",
    ),
]
_given: dict[str, str] = {}


def open_client(url: str, **options: Any) -> "Client":
    """Return a client of the hub at *url* that sends the credential of the command.

    Raises:
        BadParameter: the token, or its file, cannot be used.
    """
    from penstock.client import Client

    return Client(url, auth=find_credential(), **options)


def find_credential() -> Any:
    """Return the credential of the command as clients take it: `--token-file`, else the environment; else None.

    Raises:
        BadParameter: the token, or its file, cannot be used.
    """
    from penstock.client import BearerToken, TokenFile

    if "token_file" in _given:
        return TokenFile(_given["token_file"])
    if token := os.environ.get(TOKEN):
        return BearerToken(token.strip())
    return None


def describe_credential() -> str | None:
    """Return in words which credential the command has sent to the hub; None if it has none."""
    if "token_file" in _given:
        return f"the token in the file {_given['token_file']}"
    return f"the token in the variable {TOKEN}" if os.environ.get(TOKEN) else None


def find_spark_options() -> dict[str, str]:
    """Return the credential of the command as options of `format("penstock")`."""
    if "token_file" in _given:
        return {"tokenFile": str(Path(_given["token_file"]).absolute())}
    token = os.environ.get(TOKEN, "").strip()
    return {"token": token} if token else {}


def add_token_file(command: Any) -> None:
    """Give *command*, or those of a group, the option `--token-file` where it has the option `--url`."""
    for each in getattr(command, "commands", {}).values():
        add_token_file(each)
    places = [place for place, parameter in enumerate(command.params) if parameter.name == "url"]
    if places and not any(parameter.name == "token_file" for parameter in command.params):
        command.params.insert(places[0] + 1, _make_option())


def _make_option() -> Any:
    def declare(*, token_file: TokenFileOption = None) -> None:
        """Have Typer make the option."""

    alone = typer.Typer(add_completion=False)
    alone.command()(declare)
    option: Any = next(each for each in typer.main.get_command(alone).params if each.name == "token_file")
    option.expose_value, option.callback = False, _keep
    return option


def _keep(_context: Any, _parameter: Any, value: str | None) -> str | None:
    if value is None:
        _given.pop("token_file", None)
        return None
    from penstock.client import TokenFile
    from penstock.errors import BadParameter

    try:
        TokenFile(value)
    except BadParameter as error:
        raise typer.BadParameter(error.detail) from None
    _given["token_file"] = value
    return value
