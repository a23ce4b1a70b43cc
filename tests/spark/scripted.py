"""A handler that does with each event what the event itself says, and writes down what it was given and has done."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from penstock.processing.outcomes import done_to, retry, skip_to

SKIPPED: Final = 5
"""So many events are skipped at once, whether or not they are there."""


def failing(error: BaseException) -> Callable[[Any], Any]:
    """Return what raises *error*."""

    def fail(event: Any) -> Any:
        raise error

    return fail


WORDS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "raise": failing(ValueError("broken")),
        "break off": failing(ConnectionError("nobody answers")),
        "confuse": failing(LookupError("not to be classified")),
        "exit": failing(SystemExit(3)),
        "cancel": failing(asyncio.CancelledError("what was waited for")),
        "return nonsense": lambda _: "nonsense",
        "return too much": lambda event: event.next + 1_000,
        "defer": lambda _: retry(0.001, tag="early", deferred=1),
        "stall": lambda event: done_to(event.index, tag="stuck"),
        "return a number": lambda event: event.next,
        "pause": lambda event: done_to(event.next, after_seconds=0.001, tag="part", paused=1),
        "skip": lambda event: skip_to(event.next + SKIPPED, tag="seen", skipped=SKIPPED),
    }
)
"""What an event may ask for, in its list `does`: a word for each time it is seen, until there is none left."""


def classified(error: Exception) -> str | None:
    """Name what has failed, as some users do: some of it, and not without mistakes."""
    if isinstance(error, LookupError):
        raise TypeError("the classification has failed")
    return "outage" if isinstance(error, OSError) else None


class Scripted:
    """A handler, whose methods are called in other processes: it keeps what it has done in a file for each stream.

    Args:
        folder: Of the files.
        name: What it calls itself in them.
        is_careful: Whether it says first that what comes before an event is done that asks for something, so that this
            comes alone. What becomes of an event then does not depend on what else was in its span.
    """

    def __init__(self, folder: Path, name: str, *, is_careful: bool) -> None:
        self.folder = str(folder)
        self.name = name
        self.is_careful = is_careful

    def called(self, stream: str, events: Sequence[Any]) -> Any:
        """Do what *events* say, up to the first that asks for something."""
        before = lines_of(Path(self.folder) / stream)
        self._tell(stream, called=[event.index for event in events])
        for event in events:
            seen = sum(line.get("index") == event.index and bool(line["does"]) for line in before)
            word = next(iter(event.data["does"][seen:]), None)
            if word and self.is_careful and event is not events[0]:
                return event.index
            self._tell(stream, does=word, **_facts(event))
            if word:
                return WORDS[word](event)
        return None

    async def awaited(self, stream: str, events: Sequence[Any]) -> Any:
        """Do the same as a coroutine, which lets others go first."""
        await asyncio.sleep(0)
        return self.called(stream, events)

    def _tell(self, stream: str, **line: Any) -> None:
        with (Path(self.folder) / stream).open("a") as file:
            file.write(json.dumps({"handler": self.name, **line}) + "\n")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return what was written of a stream."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _facts(event: Any) -> dict[str, Any]:
    return {
        "index": event.index,
        "next": event.next,
        "kind": event.kind,
        "key": event.key,
        "raw": event.raw.decode(),
        "headers": dict(event.headers),
        "tranche": event.tranche,
        "numbering": event.numbering,
        "received": event.received,
    }
