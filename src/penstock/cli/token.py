"""`penstock token`: tokens of callers are created, listed, rotated and revoked, in the hub's own database."""

import os
import shlex
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE, S_ISREG
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, duration_parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.hub.admin.tokens import NewToken
    from penstock.storage.admin import StoredToken

app = group("Create, list, rotate and revoke the tokens by which callers identify themselves.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The token, as `list` shows it.")]
ToOption = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="Write the token into FILE, which its owner alone may read; print none."),
]


@app.command(
    epilog=examples(
        "penstock token create billing --expires-in 90d --to billing.token",
        "penstock token create jane --kind user --admin --to jane.token",
    )
)
def create(
    application: Annotated[str, typer.Argument(metavar="NAME", help="The application or user that will send it.")],
    *,
    kind: Annotated[Literal["service", "user"], typer.Option(help="What NAME is.")] = "service",
    expires_in: Annotated[
        float | None,
        typer.Option(
            parser=duration_parser(1, unit="d"), metavar="DURATION", help="How long it is valid, such as 90d or 12h."
        ),
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="Make NAME an administrator of the hub, too: see `penstock access`.")
    ] = False,
    to: ToOption = None,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Create a token and print it. It is shown this once: the database keeps its digest.

    A hub that authenticates callers by tokens (`penstock serve --auth token`) takes it within a second.
    """
    from penstock.cli.database import find_operator, opened
    from penstock.cli.output import tell
    from penstock.core.access import Attribute, Caller
    from penstock.hub.admin.settings import Settings
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    _check_name(application)
    caller, by = Caller(kind, application), find_operator()
    with opened(database) as store, _writer(to, replaces=False) as write:
        store.check()
        if admin:
            Settings(store, lambda: None).add_member("admins", Attribute(kind, application), by)
        created = Tokens(store, system_clock).create(caller, expires_in=expires_in, by=by)
        write(created.secret)
    _show_new(created, to, output)
    if admin and output == "text":
        tell(f"{caller} is an administrator of the hub; `penstock access list` shows all.", style="dim")


def _check_name(name: str) -> None:
    """Raise BadParameter if *name* is no name of a caller, or has a type before it as elsewhere."""
    from penstock.core.access import is_caller_name

    if not is_caller_name(name):
        raise typer.BadParameter("NAME is printable text, such as billing; * and unauthenticated mean everybody")
    kind, colon, rest = name.partition(":")
    if colon and ":" not in rest and not rest.startswith("//"):
        option = " --kind user" if kind.startswith("us") else ""
        raise typer.BadParameter(f"NAME is the name alone, without a type: {rest or 'NAME'}{option}, not {name!r}")


@contextmanager
def _writer(path: Path | None, *, replaces: bool) -> "Iterator[Callable[[str], object]]":
    """Lend a function that writes a token into the file *path*, if there is one: whole, or not at all.

    The owner alone may read a new file. One that is replaced keeps its owner, its group, and the rights of both.

    Raises:
        CommandFailure: the file cannot be written; or it is there, and is not to be replaced.
    """
    from penstock.cli.failures import CommandFailure

    if path is None:
        yield str
        return
    place, partial = path.resolve(), None
    try:
        before = place.stat() if place.exists() else None
        if before is not None and not replaces:
            raise CommandFailure(
                f"there is a file {path} already", "Name another one, or remove it if nobody needs its token."
            )
        if before is not None and not S_ISREG(before.st_mode):
            raise CommandFailure(f"{path} is not a file", "Name a file; nothing was done.")
        handle, partial = mkstemp(prefix=f".{place.name}.", dir=place.parent)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            yield lambda secret: file.write(secret + "\n")
            if before is not None:
                Path(partial).chmod(S_IMODE(before.st_mode) & 0o770)
                if hasattr(os, "fchown"):
                    os.fchown(handle, before.st_uid, before.st_gid)
            file.flush()
            os.fsync(handle)
        Path(partial).replace(place)
        partial = None
    except OSError as error:
        hint = "If `penstock token list` shows the new token, revoke it: nobody has its secret."
        raise CommandFailure(f"{path} cannot be written: {error.strerror}", hint) from error
    finally:
        if partial is not None:
            Path(partial).unlink()


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


@app.command(
    epilog=examples(
        "penstock token rotate 3f9a01b2c4d5 --to billing.token", "penstock token rotate 3f9a01b2c4d5 --overlap 1h"
    )
)
def rotate(
    token: IdArgument,
    *,
    overlap: Annotated[
        float,
        typer.Option(
            parser=duration_parser(0, unit="d"),
            metavar="DURATION",
            show_default="1d",
            help="How long the old one stays valid.",
        ),
    ] = 86_400.0,
    to: ToOption = None,
    database: DatabaseOption = DATABASE,
    output: OutputOption = "text",
) -> None:
    """Create another token for the same caller and print it; the old one expires after the overlap.

    With --to a file that is there is replaced: programs that follow it go on with the new token.
    """
    from penstock.cli.database import find_operator, opened
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with opened(database) as store, _writer(to, replaces=True) as write:
        store.check()
        created = Tokens(store, system_clock).rotate(token, overlap=overlap, by=find_operator())
        write(created.secret)
    _show_new(created, to, output)


@app.command(epilog=examples("penstock token revoke 3f9a01b2c4d5"))
def revoke(token: IdArgument, *, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Delete a token: every hub refuses it within seconds, and ends what its caller is reading.

    Its caller stays on the lists of the hub and of event types: `penstock access remove` takes it off those of the hub.
    """
    from penstock.cli.database import find_operator, opened
    from penstock.cli.output import print_json, say, tell
    from penstock.hub.admin.settings import Settings
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with opened(database) as store:
        store.check()
        tokens = Tokens(store, system_clock)
        caller = tokens.revoke(token, find_operator()).caller
        is_last = not any(each.caller == caller and each.is_valid(system_clock()) for each in tokens.list())
        listed = [
            name
            for name, members in Settings(store, lambda: None).current().administration.items()
            if caller in members
        ]
    if output == "json":
        print_json({"revoked": token, "caller": str(caller), "lists": listed})
        return
    say(f"token {token} of {caller} revoked")
    if listed and is_last:
        tell(f"{caller} has no valid token left, and is still one of the hub's {' and '.join(listed)}. To end that:")
        for name in listed:
            tell(f"  penstock access remove {name} {shlex.quote(str(caller))}")


def _show_new(created: "NewToken", to: Path | None, output: str) -> None:
    from penstock.cli.output import print_json, say, tell

    members = _members(created.token)
    if output == "json":
        print_json(members | ({"token": created.secret} if to is None else {"file": str(to)}))
        return
    expires = f"expires at {members['expires_at']}" if members["expires_at"] else "never expires"
    if to is not None:
        say(f"token {members['id']} of {members['caller']} is in {to}; it {expires}")
        return
    tell(f"Token {members['id']} of {members['caller']}, {expires}. It is not shown again:", style="dim")
    say(created.secret)


def _members(token: "StoredToken") -> dict[str, Any]:
    from penstock.core.times import format_time

    times = {"created_at": token.created_at, "expires_at": token.expires_at, "used_at": token.used_at}
    return {"id": token.id, "caller": str(token.caller)} | {
        name: None if at is None else format_time(at) for name, at in times.items()
    }
