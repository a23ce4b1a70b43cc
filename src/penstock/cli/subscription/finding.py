"""Finds the subscription that somebody means by the beginning of its id."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from penstock.client import Client, Subscription

ID_CHARS: Final = 36
"""So long an id is; what is as long is none's beginning."""
SHORT_CHARS: Final = 8
CANDIDATES_MAX: Final = 10

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The subscription's id, or a beginning of it that no other one has.")
]


def hub_at(url: str) -> "Client":
    """Return a client of the hub there; whoever sits before a command rather tries again than waits."""
    from penstock.cli.hub import open_client

    return open_client(url, retry_timeout=0)


def found(client: "Client", given: str) -> "Subscription":
    """Return the subscription whose id is, or begins with, what is *given*.

    Raises:
        BadParameter: nothing is given, as by a script whose variable is empty.
        SubscriptionNotFound: there is none of that id.
        CommandFailure: none begins so, or several do; says which.
    """
    from penstock.cli.failures import CommandFailure

    if not given:
        raise typer.BadParameter("it is empty: `penstock subscription list` has all", param_hint="ID")
    if len(given) >= ID_CHARS:
        return client.subscriptions.show(given.lower())
    if meant := beginning(client, given):
        return meant
    raise CommandFailure(
        f"no subscription has an id that begins with {given!r}", "`penstock subscription list` has all."
    )


def beginning(client: "Client", given: str) -> "Subscription | None":
    """Return the subscription whose id begins with what is *given*; None: there is none.

    Raises:
        CommandFailure: several do; says which.
    """
    from penstock.cli.failures import CommandFailure

    if not given or len(given) >= ID_CHARS:
        return None
    matching = [each for each in client.subscriptions.all() if each.id.startswith(given.lower())]
    if len(matching) < 2:
        return matching[0] if matching else None
    lines = [f"{each.id}  {of(each)}" for each in matching[:CANDIDATES_MAX]]
    if more := len(matching) - len(lines):
        lines.append(f"and {more} more")
    raise CommandFailure(f"{len(matching)} subscriptions have ids that begin with {given!r}", "\n".join(lines))


def of(subscription: "Subscription") -> str:
    """Return whose a subscription is, and to what, for people."""
    from penstock.cli.event_line import bare

    owner = f"{subscription.owning_application}, {subscription.consumer_group}"
    return bare(f"{owner}: {', '.join(subscription.event_types)}")


def shortened(ids: Sequence[str]) -> list[str]:
    """Return the beginnings of *ids* that tell each from the others.

    >>> shortened(["0a5fe317-f8", "0a5fe317-c2", "771e09aa-10"])
    ['0a5fe317-f', '0a5fe317-c', '771e09aa-1']
    """
    chars = SHORT_CHARS
    while chars < ID_CHARS and len({each[:chars] for each in ids}) < len(set(ids)):
        chars += 1
    return [each[:chars] for each in ids]
