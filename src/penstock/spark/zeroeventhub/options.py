"""The options of format("zeroeventhub"): Spark's strings in, one frozen value out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from penstock.core.log.cursor import FIRST, LAST
from penstock.errors import BadParameter
from penstock.spark.options import bad_option, flag_of, known_options, seconds_of, token_file, whole_number
from penstock.wire.http import is_address, suggest_address
from penstock.wire.log.reader.partitions import PARTITION_MAX
from penstock.wire.log.reader.protocol import ALL_HEADERS, ReadParameters

NAMES: Final = (
    "url",
    "partitionCount",
    "version",
    "startingCursors",
    "landingLocation",
    "maxEventsPerTrigger",
    "pageSizeHint",
    "eventTypes",
    "includeHeaders",
    "headers",
    "tokenFile",
    "failOnDataLoss",
    "retryTimeout",
)
LANDING: Final = "a path that driver and executors reach, and that lasts as long as the checkpoint"
_PARTITIONS: Final = frozenset(map(str, range(PARTITION_MAX + 1)))
_CURSORS: Final = f'{FIRST}, {LAST}, or JSON such as {{"0": "a cursor", "1": "{LAST}"}}'

Asked: TypeAlias = Literal["_first", "_last"] | dict[int, str]
"""Of all partitions, or by partition."""


@dataclass(frozen=True, kw_only=True)
class RemoteOptions:
    """What a query wants to read, and how."""

    url: str
    """Of the feed."""
    partition_count: int | None = None
    """The n that a ZeroEventHub publisher documents; FeedAPI tells its partitions itself."""
    version: int | None = None
    """1: ZeroEventHub, 2: FeedAPI; None: it is found out."""
    starting_cursors: Asked = "_first"
    """Where a batch or a new stream begins; partitions that JSON leaves out begin at their first event."""
    landing_location: str | None = None
    """Where a stream's pages land."""
    max_events_per_trigger: int = 100_000
    """What a micro-batch takes at most, over all partitions, where the server keeps to the size of pages asked for."""
    page_size_hint: int = 10_000
    """How many events a page is to have; servers may send more, or fewer."""
    event_types: tuple[str, ...] = ()
    """Kinds of events wanted; empty: all."""
    headers: tuple[str, ...] = ()
    """Names of headers that are to come with the events, or ALL_HEADERS."""
    authorization_file: str | None = None
    """Where each request's bearer token is read."""
    fail_on_data_loss: bool = True
    """Whether a cursor that the server refuses ends the query."""
    retry_timeout: float = 120.0
    """How long a read waits for a server that does not answer; 0: not at all."""

    @property
    def include_headers(self) -> bool:
        """Whether there is a column `headers`."""
        return bool(self.headers)

    def wish(self, page_size: int) -> ReadParameters:
        """Return what is asked for with every page, which is to have *page_size* events."""
        return ReadParameters(page_size_hint=page_size, headers=self.headers, event_types=self.event_types)


def parse_remote_options(given: Mapping[str, str]) -> RemoteOptions:
    """Read the options of a query; their names may be in any case.

    Raises:
        BadParameter: one is missing, unknown or wrong; names it, what was given and what is allowed.
    """
    values = known_options(given, NAMES)
    chosen: dict[str, Any] = {"url": _url(values.get("url"))}
    for name, (attribute, parse) in _PARSERS.items():
        if name in values:
            chosen[attribute] = parse(name, values[name])
    includes = chosen.pop("include_headers", False)
    if "headers" in chosen and not includes:
        raise bad_option(
            "headers", values["headers"], "beside includeHeaders=true alone, of whose headers it names some"
        )
    if includes:
        chosen.setdefault("headers", (ALL_HEADERS,))
    if chosen.get("version") == 1 and "partition_count" not in chosen:
        raise no_partition_count(chosen["url"])
    return RemoteOptions(**chosen)


def no_partition_count(url: str) -> BadParameter:
    """Return the error that asks for the option partitionCount."""
    allowed = f"the number of partitions that the publisher of {url} documents: ZeroEventHub does not tell it"
    return bad_option("partitionCount", None, allowed)


def _url(text: str | None) -> str:
    """Return the option url. One that holds a password is not shown."""
    given = (text or "").strip()
    allowed = f"the feed's address, such as {suggest_address(given)}/feed, without a user name or a password"
    if not given:
        raise bad_option("url", text, allowed)
    if "@" in given:
        raise bad_option("url", "(not shown)", allowed)
    if not is_address(given) or "#" in given:
        raise bad_option("url", given, allowed)
    return given


def _partition_count(name: str, text: str) -> int:
    count = whole_number(name, text)
    if count > PARTITION_MAX + 1:
        raise bad_option(name, text, f"a whole number, 1 to {PARTITION_MAX + 1}")
    return count


def _version(name: str, text: str) -> int:
    if text.strip() not in ("1", "2"):
        raise bad_option(name, text, "1 (ZeroEventHub) or 2 (FeedAPI)")
    return int(text)


def _cursors(name: str, text: str) -> Asked:
    word = text.strip()
    if word == FIRST:
        return "_first"
    if word == LAST:
        return "_last"
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_option(name, text[:200], _CURSORS) from None
    if not isinstance(given, dict) or not given:
        raise bad_option(name, text[:200], _CURSORS)
    # As they stand in a checkpoint or in a query's progress, there is more beside the cursor.
    cursors: dict[str, Any] = {
        number: each.get("cursor") if isinstance(each, dict) else each for number, each in given.items()
    }
    if not cursors.keys() <= _PARTITIONS or not all(isinstance(each, str) and each for each in cursors.values()):
        raise bad_option(name, text[:200], _CURSORS)
    return {int(number): cursor for number, cursor in cursors.items()}


def _names(name: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",")))
    if not all(names) or any(";" in each for each in names):
        raise bad_option(name, text, "a name, or several separated by commas")
    return names


def _location(name: str, text: str) -> str:
    if not text.strip():
        raise bad_option(name, text, LANDING)
    return text.strip()


_PARSERS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "partitionCount": ("partition_count", _partition_count),
    "version": ("version", _version),
    "startingCursors": ("starting_cursors", _cursors),
    "landingLocation": ("landing_location", _location),
    "maxEventsPerTrigger": ("max_events_per_trigger", whole_number),
    "pageSizeHint": ("page_size_hint", whole_number),
    "eventTypes": ("event_types", _names),
    "includeHeaders": ("include_headers", flag_of),
    "headers": ("headers", _names),
    "tokenFile": ("authorization_file", token_file),
    "failOnDataLoss": ("fail_on_data_loss", flag_of),
    "retryTimeout": ("retry_timeout", seconds_of),
}
