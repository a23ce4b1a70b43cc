"""`penstock token`: tokens of callers are created, listed, rotated and revoked, in the hub's own database."""

import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE, S_ISREG
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.helping import examples, group
from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, duration_parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.cli.failures import CommandFailure
    from penstock.core.access import Sender
    from penstock.hub.admin.tokens import NewToken, Tokens

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

    A hub that authenticates callers by tokens (`penstock serve --auth token`) takes it within a second. If it cannot be
    printed or written, it is revoked again.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.core.access import Attribute, Caller
    from penstock.hub.admin.settings import Settings
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    _check_name(application)
    caller, by = Caller(kind, application), find_operator()
    with open_database(database) as store, _writer(to, output, replaces=False) as write:
        store.check()
        settings, tokens = Settings(store, lambda: None), Tokens(store, system_clock)
        member = Attribute(kind, application)
        created = tokens.create(caller, expires_in_seconds=expires_in, by=by)
        with _revoke_on_failure(tokens, created, by):
            is_added = admin and settings.add_member("admins", member, by)
            try:
                write(created)
            except BaseException:
                if is_added:
                    settings.remove_member("admins", member, by)
                raise
    if to is not None:
        _show_new(created, to, output)
    if admin and output == "text":
        from penstock.cli.output import tell

        tell(f"{caller} is an administrator of the hub; `penstock access list` shows all.", style="dim")


def _check_name(name: str) -> None:
    """Raise BadParameter if *name* is no name of a caller, or has a type before it as elsewhere."""
    from penstock.core.access import find_typed_name, is_caller_name

    if not is_caller_name(name):
        raise typer.BadParameter("NAME is printable text, such as billing; * and unauthenticated mean everybody")
    if (rest := find_typed_name(name)) is not None:
        option = " --kind user" if name.startswith("us") else ""
        raise typer.BadParameter(f"NAME is the name alone, without a type: {rest or 'NAME'}{option}, not {name!r}")


@contextmanager
def _writer(path: Path | None, output: str, *, replaces: bool) -> "Iterator[Callable[[NewToken], None]]":
    """Lend a function that writes a new token into the file *path*, whole or not at all; without one it prints it.

    The owner alone may read a new file. One that is replaced keeps its owner, its group, and the rights of both.

    Raises:
        CommandFailure: the file cannot be written; or it is there, and is not to be replaced.
    """
    from penstock.cli.failures import CommandFailure

    if path is None:
        yield lambda created: _show_new(created, None, output)
        return
    place = path.resolve()
    try:
        before = place.stat() if place.exists() else None
        if before is not None and not replaces:
            raise CommandFailure(
                f"there is a file {path} already", "Name another one, or remove it if nobody needs its token."
            )
        if before is not None and not S_ISREG(before.st_mode):
            raise CommandFailure(f"{path} is not a file", "Name a file; nothing was done.")
        handle, name = mkstemp(prefix=f".{place.name}.", dir=place.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    partial = Path(name)

    def write(created: "NewToken") -> None:
        try:
            file.write(created.secret + "\n")
            if before is not None:
                partial.chmod(S_IMODE(before.st_mode) & 0o770)
                if hasattr(os, "fchown"):
                    os.fchown(handle, before.st_uid, before.st_gid)
            file.flush()
            os.fsync(handle)
            partial.replace(place)
        except OSError as error:
            raise _unwritable(path, error) from error

    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            yield write
    finally:
        partial.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> "CommandFailure":
    from penstock.cli.failures import CommandFailure

    return CommandFailure(f"{path} cannot be written: {error.strerror}", "Name another file, or free space.")


@contextmanager
def _revoke_on_failure(tokens: "Tokens", created: "NewToken", by: "Sender") -> "Iterator[None]":
    """Revoke a new token if the block raises, since its secret was not delivered.

    Raises:
        CommandFailure: the token could not be printed, or it could not be revoked; the message has its state.
    """
    from penstock.cli.failures import CommandFailure
    from penstock.cli.streams import OutputClosed, OutputFailed
    from penstock.errors import PenstockError

    try:
        yield
    except BaseException as error:
        try:
            tokens.revoke(created.token.id, by)
        except PenstockError as failure:
            left = f"nobody has the secret of token {created.token.id}, and it could not be revoked: {failure.detail}"
            raise CommandFailure(left, f"Run `penstock token revoke {created.token.id}`.") from error
        if isinstance(error, OutputClosed | OutputFailed):
            reason = str(error) or "nobody reads the output"
            hint = "Print it where it can be read, or write it into a file by --to."
            raise CommandFailure(f"{reason}; the new token was revoked again", hint) from error
        raise


@app.command("list", epilog=examples("penstock token list", "penstock token list --output json"))
def list_tokens(*, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Show all tokens, without their secrets: whose they are, when they expire, and when they were last used."""
    from penstock.cli.database import open_database
    from penstock.cli.output import print_json, print_table, say
    from penstock.hub.admin.tokens import Tokens, describe_token
    from penstock.hub.background import system_clock

    with open_database(database) as store:
        store.check()
        found = [describe_token(each) for each in Tokens(store, system_clock).list()]
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

    With --to a file that is there is replaced: programs that follow it go on with the new token. If the new one cannot
    be printed or written, it is revoked again, and the old one stays as it was.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.failures import CommandFailure
    from penstock.errors import PenstockError
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    by, handed_over = find_operator(), list["NewToken"]()
    with open_database(database) as store, _writer(to, output, replaces=True) as write:
        store.check()
        tokens = Tokens(store, system_clock)

        def hand_over(created: "NewToken") -> None:
            with _revoke_on_failure(tokens, created, by):
                write(created)
            handed_over.append(created)

        try:
            created = tokens.rotate(token, overlap_seconds=overlap, by=by, hand_over=hand_over)
        except PenstockError as error:
            if not handed_over:
                raise
            left = f"token {handed_over[0].token.id} takes the place of {token}, which stays valid: {error.detail}"
            raise CommandFailure(left, f"Run `penstock token revoke {token}` once nobody sends it.") from error
    if to is not None:
        _show_new(created, to, output)


@app.command(epilog=examples("penstock token revoke 3f9a01b2c4d5"))
def revoke(token: IdArgument, *, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Delete a token: every hub refuses it within seconds, and ends what its caller is reading.

    Its caller stays on the lists of the hub and of event types: `penstock access remove` takes it off those of the hub.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.output import print_json, say, tell
    from penstock.hub.admin.settings import Settings
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    with open_database(database) as store:
        store.check()
        tokens = Tokens(store, system_clock)
        caller = tokens.revoke(token, find_operator()).caller
        is_last = not tokens.count_valid(caller)
        listed = Settings(store, lambda: None).list_memberships(caller)
    if output == "json":
        print_json({"revoked": token, "caller": str(caller), "lists": listed})
        return
    say(f"token {token} of {caller} revoked")
    if listed and is_last:
        tell(f"{caller} has no valid token left, and is still one of the hub's {' and '.join(listed)}. To end that:")
        for name in listed:
            tell(f"  penstock access remove {name} {shlex.quote(str(caller))}")


def _show_new(created: "NewToken", to: Path | None, output: str) -> None:
    """Print a new token, with its secret unless it is in the file *to*; it is written out on return."""
    from penstock.cli.output import print_json, say, tell
    from penstock.hub.admin.tokens import describe_token

    members = describe_token(created.token)
    if output == "json":
        print_json(members | ({"token": created.secret} if to is None else {"file": str(to)}))
        sys.stdout.flush()
        return
    expires = f"expires at {members['expires_at']}" if members["expires_at"] else "never expires"
    if to is not None:
        say(f"token {members['id']} of {members['caller']} is in {to}; it {expires}")
        return
    tell(f"Token {members['id']} of {members['caller']}, {expires}. It is not shown again:", style="dim")
    say(created.secret)
    sys.stdout.flush()
