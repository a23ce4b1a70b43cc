"""The options of format("penstock"): Spark's strings in, one frozen value out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from penstock.errors import BadParameter
from penstock.wire.address import EXAMPLE, is_address, meant

EARLIEST: Final = -2
LATEST: Final = -1
"""In the JSON of startingOffsets and endingOffsets, as with Spark's own Kafka source."""

NAMES: Final = (
    "url",
    "eventType",
    "startingOffsets",
    "endingOffsets",
    "maxEventsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "retrySeconds",
)
_OF_SPARK: Final = {"path", "paths"}
_OFFSETS_FORM: Final = 'JSON such as {"order.placed": {"0": 17, "1": -2}}, where -2 is the earliest and -1 the latest'
_PARTITION: Final = re.compile(r"0|[1-9]\d{0,4}", re.ASCII)


class AskedOffsets(NamedTuple):
    """What an option says of one event type."""

    epoch: int | None
    """That of the feed when the offsets were noted, where they say so."""
    offsets: dict[int, int]
    """By partition: an offset, EARLIEST or LATEST."""


Asked: TypeAlias = Literal["earliest", "latest"] | dict[str, AskedOffsets]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What a query wants to read, and how."""

    url: str
    """Of the hub, without a slash at the end."""
    event_types: tuple[str, ...]
    """In the order given, each once."""
    starting_offsets: Asked = "earliest"
    """Where a batch or a new stream begins; partitions that JSON leaves out begin at their earliest event."""
    ending_offsets: Asked = "latest"
    """Where a batch ends; partitions that JSON leaves out are read to their end."""
    max_events_per_trigger: int = 1_000_000
    """The most that a micro-batch takes, over all event types and partitions."""
    min_partitions: int | None = None
    """At least so many tasks, where there are so many events; None: as many as keep this machine's cores busy."""
    fail_on_data_loss: bool = True
    """Whether events that are gone before they were read end the query."""
    include_headers: bool = False
    """Whether there is a column `headers`."""
    retry_seconds: float = 120.0
    """How long a read waits, without getting one event further, for a hub that cannot be reached; 0: not at all."""


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of a query; their names may be in any case.

    Raises:
        BadParameter: one is missing, unknown or wrong; names it, what was given and what is allowed.
    """
    known = {name.lower(): name for name in NAMES}
    values = {}
    for name, value in given.items():
        if name.lower() in known:
            values[known[name.lower()]] = value
        elif name.lower() not in _OF_SPARK and "." not in name and not name.startswith("__"):
            # Settings with dots and names with underlines are Spark's own business.
            raise BadParameter(
                f"there is no option {name!r} (given: {value!r}); allowed: {', '.join(NAMES)}",
                parameter=name,
                value=value,
                allowed=", ".join(NAMES),
            )
    event_types = _event_types(values)
    chosen: dict[str, Any] = {}
    for name, field, parse in _PARSERS:
        if name in values:
            chosen[field] = parse(name, values[name])
    for name, field in (("startingOffsets", "starting_offsets"), ("endingOffsets", "ending_offsets")):
        if name in values:
            chosen[field] = _asked(name, values[name], event_types)
    options = SourceOptions(url=_url(values), event_types=event_types, **chosen)
    if "endingOffsets" in values:
        _refuse_contradiction(options, values["endingOffsets"])
    return options


def bad_option(name: str, value: object, allowed: str) -> BadParameter:
    """Return the error that refuses an option; *value* None stands for one that is missing."""
    said = "is missing" if value is None else f"is {value!r}"
    return BadParameter(f"option {name} {said}; allowed: {allowed}", parameter=name, value=value, allowed=allowed)


def _refuse_contradiction(options: SourceOptions, ending: str) -> None:
    """Refuse here what is wrong in a batch and in a stream alike: which of them it is, Spark tells when it reads."""
    starts, ends = options.starting_offsets, options.ending_offsets
    if starts == "latest":
        raise bad_option("endingOffsets", ending, "in a batch only, which cannot begin at startingOffsets=latest")
    if isinstance(starts, dict) and isinstance(ends, dict):
        for event_type in starts.keys() & ends.keys():
            for partition, start in starts[event_type].offsets.items():
                end = ends[event_type].offsets.get(partition, LATEST)
                if 0 <= end < start:
                    allowed = f"for partition {partition} of {event_type!r}, {start} or more: it begins there"
                    raise bad_option("endingOffsets", end, allowed)


def _url(values: Mapping[str, str]) -> str:
    text = values.get("url", "").strip()
    allowed = f"the hub's address, such as {meant(text)}"
    if not text:
        raise bad_option("url", values.get("url"), allowed)
    if "@" in text:
        raise bad_option(
            "url", "(not shown)", f"the hub's address, such as {EXAMPLE}, without a user name or a password"
        )
    if not is_address(text) or "?" in text or "#" in text:
        raise bad_option("url", text, allowed)
    return text.rstrip("/")


def _event_types(values: Mapping[str, str]) -> tuple[str, ...]:
    text = values.get("eventType")
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",")))
    if not all(names):
        raise bad_option("eventType", text, "the name of an event type, or several separated by commas")
    return names


def _whole_number(name: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,17}", text.strip(), re.ASCII):
        raise bad_option(name, text, "a whole number, 1 or more")
    return int(text)


def _seconds(name: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text.strip(), re.ASCII):
        raise bad_option(name, text, "seconds, 0 or more")
    return float(text)


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(name, text, "true or false")
    return text.strip().lower() == "true"


_PARSERS: Final = (
    ("maxEventsPerTrigger", "max_events_per_trigger", _whole_number),
    ("minPartitions", "min_partitions", _whole_number),
    ("failOnDataLoss", "fail_on_data_loss", _flag),
    ("includeHeaders", "include_headers", _flag),
    ("retrySeconds", "retry_seconds", _seconds),
)


def _asked(name: str, text: str, event_types: tuple[str, ...]) -> Asked:
    word = text.strip().lower()
    if word == "earliest" and name == "startingOffsets":
        return "earliest"
    if word == "latest":
        return "latest"
    allowed = f"{'earliest, ' if name == 'startingOffsets' else ''}latest, or {_OFFSETS_FORM}"
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_option(name, text[:200], allowed) from None
    if not isinstance(given, dict):
        raise bad_option(name, text[:200], allowed)
    if strays := sorted(set(given) - set(event_types)):
        raise bad_option(name, text[:200], f"event types that eventType names; {', '.join(strays)} is none of them")
    return {event_type: _asked_of_one(name, places, allowed) for event_type, places in given.items()}


def _asked_of_one(name: str, places: object, allowed: str) -> AskedOffsets:
    if not isinstance(places, dict):
        raise bad_option(name, places, allowed)
    epoch = places.get("epoch")
    if not (epoch is None or _is_whole(epoch, 1)):
        raise bad_option(name, places, "an epoch of 1 or more")
    offsets = {}
    for partition, offset in places.items():
        if partition in ("epoch", "from"):  # As they stand in a checkpoint or in a query's progress.
            continue
        lowest = EARLIEST if name == "startingOffsets" else LATEST
        if not _PARTITION.fullmatch(partition) or not _is_whole(offset, lowest):
            raise bad_option(name, places, allowed)
        offsets[int(partition)] = offset
    return AskedOffsets(epoch, offsets)


def _is_whole(value: object, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value < 10**18
