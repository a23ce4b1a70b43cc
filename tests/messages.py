"""Server-sent events, parsed as the standard has it: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.served import Served

ACCEPT = {"Accept": "text/event-stream"}
_LINE = re.compile("\r\n|\r|\n")


class Message(NamedTuple):
    """A message that a page sees, or one without data, which it does not see."""

    id: str
    """The last event id of the source just after it."""
    event: str
    data: str

    @property
    def number(self) -> int:
        """The id of the event that the message has."""
        number: int = json.loads(self.data)["id"]
        return number


def parse(text: str) -> list[Message]:
    """Return the whole messages of *text*."""
    return list(messages_of(_LINE.split(text)))


def messages_of(lines: Iterable[str]) -> Iterator[Message]:
    """Yield messages as their last lines come. A comment alone is a message of nothing new."""
    last, event, data, is_empty = "", "message", list[str](), True
    for line in lines:
        if not line:
            if not is_empty:
                yield Message(last, event, "\n".join(data))
            event, data, is_empty = "message", [], True
            continue
        is_empty = False
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id" if "\0" not in value:
                last = value
            case "event":
                event = value or "message"
            case "data":
                data.append(value)


@contextmanager
def messages(
    feed: Served, path: str = "", *, last: str | None = None, status: int = 200, **arguments: Any
) -> Iterator[Iterator[Message]]:
    """Begin a stream, which is left with the block, and return its messages as they come."""
    headers = ACCEPT | ({} if last is None else {"Last-Event-ID": last})
    params = {name.replace("_", "-"): value for name, value in arguments.items()}
    with feed.http.stream("GET", feed.path + path, params=params, headers=headers) as answer:
        assert answer.status_code == status, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        yield messages_of(answer.iter_lines())
