"""`penstock token`: tokens of callers are created, listed, rotated and revoked, in the hub's own database."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, duration_parser

if TYPE_CHECKING:
    from penstock.hub.admin.tokens import NewToken
    from penstock.storage.admin import StoredToken

app = group("Create, list, rotate and revoke the tokens by which callers identify themselves.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The token, as `list` shows it.")]


@app.command(
    epilog=examples("penstock token create billing --expires-in 90d", "penstock token create deploy --admin > token")
)
def create(
    application: Annotated[str, typer.Argument(metavar="NAME", help="The application or user that will send it.")],
    *,
    kind: Annotated[Literal["service", "user"], typer.Option(help="What NAME is.")] = "service",
    expires_in: Annotated[
        float | None,
        typer.Option(parser=duration_parser(1), metavar="DURATION", help="How long it is valid, such as 90d."),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="Make it an administrator of the hub, too.")] = False,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Create a token and print it. It is shown this once: the database keeps its digest.

    A hub that authenticates callers by tokens (`penstock serve --auth token`) takes it within a second.
    """
    from penstock.cli.database import find_operator, opened
    from penstock.core.access import Attribute, Caller, is_caller_name
    from penstock.hub.admin.settings import Settings
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    if not is_caller_name(application):
        raise typer.BadParameter("NAME is printable text, such as billing; * and unauthenticated mean everybody")
    caller, by = Caller(kind, application), find_operator()
    with opened(database) as store:
        store.check()
        if admin:
            Settings(store, lambda: None).add_administrator(Attribute(kind, application), by)
        _show_new(Tokens(store, system_clock).create(caller, expires_in=expires_in, by=by), output)


@app.command("list", epilog=examples("penstock token list", "penstock token list --output json"))
def list_tokens(*, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Show all tokens, without their secrets: whose they are, when they expire, and when they were last used."""
    from penstock.cli.database import opened
    from penstock.cli.output import print_json, print_table, say
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with opened(database) as store:
        store.check()
        tokens = Tokens(store, system_clock).list()
    found = [_members(each) for each in tokens]
    if output == "json":
        print_json({"items": found})
    elif not found:
        say("There are no tokens: `penstock token create NAME` makes one.")
    else:
        table = [
            [each["id"], each["caller"], each["created_at"], each["expires_at"] or "never", each["used_at"] or "never"]
            for each in found
        ]
        print_table(("id", "caller", "created at", "expires at", "last used"), table)


@app.command(epilog=examples("penstock token rotate 3f9a01b2c4d5", "penstock token rotate 3f9a01b2c4d5 --overlap 1h"))
def rotate(
    token: IdArgument,
    *,
    overlap: Annotated[
        float,
        typer.Option(
            parser=duration_parser(0), metavar="DURATION", show_default="1d", help="How long the old one stays valid."
        ),
    ] = 86_400.0,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Create another token for the same caller and print it; the old one expires after the overlap."""
    from penstock.cli.database import find_operator, opened
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with opened(database) as store:
        store.check()
        _show_new(Tokens(store, system_clock).rotate(token, overlap=overlap, by=find_operator()), output)


@app.command(epilog=examples("penstock token revoke 3f9a01b2c4d5"))
def revoke(token: IdArgument, *, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Delete a token: every hub refuses it within seconds, and ends what its caller is reading."""
    from penstock.cli.database import find_operator, opened
    from penstock.cli.output import print_json, say
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with opened(database) as store:
        store.check()
        Tokens(store, system_clock).revoke(token, find_operator())
    if output == "json":
        print_json({"revoked": token})
    else:
        say(f"token {token} revoked")


def _show_new(created: "NewToken", output: str) -> None:
    from penstock.cli.output import print_json, say, tell

    members = _members(created.token)
    if output == "json":
        print_json(members | {"token": created.secret})
        return
    expires = f", expires at {members['expires_at']}" if members["expires_at"] else ""
    tell(f"Token {members['id']} of {members['caller']}{expires}. It is not shown again:", style="dim")
    say(created.secret)


def _members(token: "StoredToken") -> dict[str, Any]:
    from penstock.core.times import format_time

    times = {"created_at": token.created_at, "expires_at": token.expires_at, "used_at": token.used_at}
    return {"id": token.id, "caller": str(token.caller)} | {
        name: None if at is None else format_time(at) for name, at in times.items()
    }
