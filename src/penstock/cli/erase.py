"""`penstock erase`: erases the events of a key, for good, and reports what was erased."""

import time
from typing import Annotated

import typer

from penstock.cli.options import URL, OutputOption, UrlOption, YesOption


def erase(
    event_type: Annotated[str, typer.Argument(metavar="EVENT_TYPE", help="The event type.")],
    *,
    key: Annotated[
        str,
        typer.Option("--key", metavar="KEY", help="Their key; of a compacted event type, the compaction key."),
    ],
    yes: YesOption = False,
    url: UrlOption = URL,
    output: OutputOption = "text",
) -> None:
    """Erase the events of a key for good, such as those of a person, and report what was erased.

    It asks first, and waits until the hub is done; if it is interrupted, the hub goes on by itself. Events that are
    published later stay.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.hub import open_client
    from penstock.cli.output import plural, print_json, say, tell, working

    with open_client(url) as client:
        client.event_type(event_type)
        if not yes:
            confirm(f"Erase all events of {event_type} with the key {key!r} for ever?")
        erasure = client.erase(event_type, key)
        with working("erasing"):
            while erasure["state"] != "finished":
                time.sleep(0.2)
                before, erasure = erasure.get("waits_for"), client.erasure(event_type, erasure["id"])
                if erasure.get("waits_for") not in {None, before}:
                    tell(f"the erasure goes on later: {erasure['waits_for']}")
    if output == "json":
        print_json(erasure)
        return
    erased = erasure["erased"]
    found = [
        plural(erased["events"], "event"),
        plural(erased["parked_keys"], "parked key"),
        plural(erased["rejected"], "rejected row"),
        plural(erased["dead_letters"], "dead letter"),
    ]
    if not any(erased.values()):
        tell(f"{event_type} has nothing with the key {key!r}: do its events have keys, and is that one?")
    say(f"erased {', '.join(found)} of {event_type}, as erasure {erasure['id']}")
