"""The options of format("penstock"): Spark's strings in, one frozen value out."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from penstock.core.group_names import PATH_NAME_ALLOWED, is_path_name
from penstock.core.log.start import START_FORM, Word, parse_start, resolve_start
from penstock.core.times import EXAMPLES, parse_duration
from penstock.errors import BadParameter
from penstock.spark.authorization import ANONYMOUS, FILE_ALLOWED, Credential, is_token
from penstock.spark.offsets import MARKS
from penstock.wire.http import EXAMPLE, is_address, suggest_address

Choice = TypeVar("Choice")
EARLIEST: Final = -2
LATEST: Final = -1
"""In the JSON of startingOffsets and endingOffsets, as with Spark's own Kafka source."""
_SECRET_NAME: Final = re.compile(r"secret|password|token|credential", re.IGNORECASE)
_HIDDEN: Final = "(not shown)"
_SECRET: Final = re.compile(r"^([\w+.-]+://)[^@]*:[^@]*@")

NAMES: Final = (
    "url",
    "eventType",
    "startingOffsets",
    "endingOffsets",
    "maxEventsPerTrigger",
    "minEventsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "splitPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "payload",
    "schemaVersion",
    "schemaEvolution",
    "consumerGroup",
    "coldTier",
    "retryTimeout",
    "token",
    "tokenFile",
)
_OF_SPARK: Final = {"path", "paths"}
_ALLOWED_OFFSETS: Final = (
    f'{START_FORM}, or JSON such as {{"order.placed": {{"0": 17, "1": -2}}}}, where -2 is the earliest and -1 the '
    "latest, and a time or a duration may stand in place of an event type's offsets"
)
_VERSION: Final = re.compile(r"latest|\d{1,9}\.\d{1,9}\.\d{1,9}", re.ASCII)
_PARTITION: Final = re.compile(r"0|[1-9]\d{0,4}", re.ASCII)


class AskedOffsets(NamedTuple):
    """The offsets that an option gives for one event type."""

    epoch: int | None
    """That of the feed when the offsets were noted, where they say so."""
    offsets: dict[int, int]
    """By partition: an offset, EARLIEST or LATEST."""


class AskedTime(NamedTuple):
    """A time that an option gives for one event type, or all: read the events received then or later."""

    text: str
    """As RFC 3339 writes it."""


Asked: TypeAlias = Word | AskedTime | dict[str, AskedOffsets | AskedTime]
Payload: TypeAlias = Literal["json", "typed", "both"]
Evolution: TypeAlias = Literal["pinned", "latest"]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of a query that reads a hub."""

    url: str
    """Of the hub, without a slash at the end."""
    event_types: tuple[str, ...]
    """In the order given, each once."""
    starting_offsets: Asked | None = None
    """Where a batch or a new stream starts; None: a batch at the earliest event, a stream at the latest.

    Partitions that JSON leaves out start at their earliest event.
    """
    ending_offsets: Asked = "latest"
    """Where a batch ends; partitions that JSON leaves out are read to their end."""
    max_events_per_trigger: int = 1_000_000
    """The most that a micro-batch takes, over all event types and partitions."""
    min_events_per_trigger: int | None = None
    """A micro-batch waits for this many events, or for `max_trigger_delay`; None: it does not wait."""
    max_trigger_delay: float = 900.0
    """In seconds, since the last micro-batch began."""
    min_partitions: int | None = None
    """The minimum number of tasks, if there are as many events; None: as many as keep this machine's cores busy."""
    split_partitions: bool = True
    """True if several tasks may read from one partition; else what a task reads of it is all of it, in order."""
    fail_on_data_loss: bool = True
    """True if events that are gone before they were read end the query."""
    include_headers: bool = False
    """True if there is a column `headers`."""
    payload: Payload = "json"
    """The form of events: JSON, typed columns, or both."""
    schema_versions: Mapping[str, str] = field(default_factory=dict)
    """By event type: the version of its schema that typed columns are made of; the newest of those not here."""
    schema_evolution: Evolution = "pinned"
    """The action of a restarted query if the schema of its event type has changed: fail, or take the newest."""
    consumer_group: str | None = None
    """Under which name the hub shows how far a stream has come."""
    cold_tier: str | None = None
    """The URL of the hub's cold tier, whose files executors read; None: sealed events come from the hub too."""
    retry_timeout: float = 120.0
    """How long a read waits, without getting one event further, for a hub that cannot be reached; 0: not at all."""
    credential: Credential = ANONYMOUS
    """The token that the hub is sent."""


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a query. Names are case-insensitive.

    Raises:
        BadParameter: one is missing, unknown or wrong; the error has its name, its value and the allowed values.
    """
    values = select_options(given, NAMES)
    event_types = event_types_of(values)
    chosen: dict[str, Any] = {}
    for name, attribute, parse in _PARSERS:
        if name in values:
            chosen[attribute] = parse(name, values[name])
    for name, attribute, parse_by_type in _PARSERS_BY_TYPE:
        if name in values:
            chosen[attribute] = parse_by_type(name, values[name], event_types)
    options = SourceOptions(url=hub_url(values), event_types=event_types, credential=credential_of(values), **chosen)
    _refuse_contradictions(options, values)
    return options


def select_options(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return what is *given* by the *names* that there are, without what is Spark's own business.

    Raises:
        BadParameter: there is no such option; says which there are.
    """
    known = {name.lower(): name for name in names}
    values = {}
    for name, value in given.items():
        if name.lower() in known:
            values[known[name.lower()]] = value
        elif name.lower() not in _OF_SPARK and "." not in name and not name.startswith("__"):
            # Settings with dots and names with underlines are Spark's own business.
            allowed = ", ".join(known.values())
            shown = _HIDDEN if _SECRET_NAME.search(name) else value
            detail = f"there is no option {name!r} (given: {shown!r}); allowed: {allowed}"
            raise BadParameter(detail, parameter=name, value=shown, allowed=allowed)
    return values


def bad_option(name: str, value: object, allowed: str) -> BadParameter:
    """Return the error that refuses an option; *value* None stands for one that is missing."""
    said = "is missing" if value is None else f"is {value!r}"
    return BadParameter(f"option {name} {said}; allowed: {allowed}", parameter=name, value=value, allowed=allowed)


def _refuse_contradictions(options: SourceOptions, values: Mapping[str, str]) -> None:
    """Refuse here what is wrong in a batch and in a stream alike: which of them it is, Spark tells when it reads."""
    for name in ("schemaVersion", "schemaEvolution"):
        if name in values and options.payload == "json":
            raise bad_option(name, values[name], "with payload=typed or both: JSON has no columns")
    if "endingOffsets" in values:
        _refuse_wrong_end(options, values["endingOffsets"])


def _refuse_wrong_end(options: SourceOptions, ending: str) -> None:
    starts, ends = options.starting_offsets, options.ending_offsets
    if starts == "latest":
        raise bad_option("endingOffsets", ending, "in a batch only, which cannot begin at startingOffsets=latest")
    if isinstance(starts, dict) and isinstance(ends, dict):
        for event_type in starts.keys() & ends.keys():
            first, last = starts[event_type], ends[event_type]
            if isinstance(first, AskedTime) or isinstance(last, AskedTime):
                continue
            for partition, start in first.offsets.items():
                end = last.offsets.get(partition, LATEST)
                if 0 <= end < start:
                    allowed = f"for partition {partition} of {event_type!r}, {start} or more: it begins there"
                    raise bad_option("endingOffsets", end, allowed)


def hub_url(values: Mapping[str, str], called: str = "the hub's address") -> str:
    """Return the option url, without a slash at the end; *called* is what it is, in an error.

    Raises:
        BadParameter: it is missing, or no address of a hub.
    """
    text = values.get("url", "").strip()
    allowed = f"{called}, such as {suggest_address(text)}"
    if not text:
        raise bad_option("url", values.get("url"), allowed)
    if "@" in text:
        raise bad_option("url", _HIDDEN, f"{called}, such as {EXAMPLE}, without a user name or a password")
    if not is_address(text) or "?" in text or "#" in text:
        raise bad_option("url", text, allowed)
    return text.rstrip("/")


def credential_of(values: Mapping[str, str]) -> Credential:
    """Return what the options token and tokenFile say; no error shows a token.

    Raises:
        BadParameter: a token is none, the name of a file is empty, or both are given.
    """
    if "token" not in values:
        return Credential(file=token_file("tokenFile", values["tokenFile"])) if "tokenFile" in values else ANONYMOUS
    if "tokenFile" in values:
        raise bad_option("token", _HIDDEN, "without tokenFile: give one of the two")
    if not is_token(values["token"]):
        raise bad_option("token", _HIDDEN, "one word of visible ASCII characters, as `penstock token create` prints it")
    return Credential(values["token"])


def token_file(name: str, text: str) -> str:
    """Return the option *name*, a file with a token.

    Raises:
        BadParameter: it is empty.
    """
    if not text.strip():
        raise bad_option(name, text, FILE_ALLOWED)
    return text.strip()


def event_types_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the option eventType: names in the order given, each once.

    Raises:
        BadParameter: it is missing, or one of them is empty.
    """
    return names_of("eventType", values.get("eventType"), "the name of an event type, or several separated by commas")


def names_of(name: str, text: str | None, allowed: str) -> tuple[str, ...]:
    """Return an option that is names separated by commas, in the order given, each once.

    Raises:
        BadParameter: It is missing, or a name is empty.
    """
    names = tuple(dict.fromkeys(each.strip() for each in (text or "").split(",")))
    if not all(names):
        raise bad_option(name, text, allowed)
    return names


def object_of(name: str, text: str, allowed: str) -> dict[str, Any]:
    """Return an option that is a JSON object.

    Raises:
        BadParameter: It is none.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise bad_option(name, text[:200], allowed)
    return given


def whole_number(name: str, text: str) -> int:
    """Return an option that is a number of things.

    Raises:
        BadParameter: it is none.
    """
    if not re.fullmatch(r"[1-9]\d{0,17}", text.strip(), re.ASCII):
        raise bad_option(name, text, "a whole number, 1 or more")
    return int(text)


def seconds_of(name: str, text: str) -> float:
    """Return the seconds of an option that is a duration, such as `10 seconds` or `15m`.

    Raises:
        BadParameter: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError:
        raise bad_option(name, text, EXAMPLES) from None


def whole_seconds(name: str, text: str) -> int:
    """Return the seconds of an option that is a duration of whole seconds, 1 or more.

    Raises:
        BadParameter: it is none.
    """
    seconds = seconds_of(name, text)
    if seconds < 1 or not seconds.is_integer():
        raise bad_option(name, text, "whole seconds, 1 or more, such as '60 seconds'")
    return int(seconds)


def flag_of(name: str, text: str) -> bool:
    """Return an option that is true or false.

    Raises:
        BadParameter: it is neither.
    """
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(name, text, "true or false")
    return text.strip().lower() == "true"


def _cold_tier(name: str, text: str) -> str:
    from penstock.cold.storage import ALLOWED, open_storage  # It loads Arrow.

    try:
        open_storage(text.strip())
    except BadParameter:
        raise bad_option(name, hide_key(text), ALLOWED) from None
    return text.strip()


def _payload(name: str, text: str) -> str:
    return one_of(name, text, {"json": "json", "typed": "typed", "both": "both"})


def _evolution(name: str, text: str) -> str:
    return one_of(name, text, {"pinned": "pinned", "latest": "latest"})


def one_of(name: str, text: str, allowed: Mapping[str, Choice]) -> Choice:
    """Return what is *allowed* under the word that an option is, in any case.

    Raises:
        BadParameter: it is none of these.
    """
    if text.strip().lower() not in allowed:
        raise bad_option(name, text, ", ".join(allowed))
    return allowed[text.strip().lower()]


def _group(name: str, text: str) -> str:
    if not is_path_name(text):
        raise bad_option(name, text[:80], PATH_NAME_ALLOWED)
    return text


def _versions(name: str, text: str, event_types: tuple[str, ...]) -> dict[str, str]:
    """Read `schemaVersion`: one for all event types, or JSON by event type; `latest` is said by not saying any."""
    allowed = 'latest, a version such as 1.2.0, or JSON by event type such as {"order.placed": "1.2.0"}'
    given: Any = dict.fromkeys(event_types, text.strip())
    if text.strip().startswith("{"):
        given = object_of(name, text, allowed)
    for event_type, version in given.items():
        if event_type not in event_types:
            raise bad_option(name, text[:200], f"event types that eventType names, unlike {event_type!r}")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise bad_option(name, text[:200], allowed)
    return {event_type: version for event_type, version in given.items() if version != "latest"}


_PARSERS: Final = (
    ("maxEventsPerTrigger", "max_events_per_trigger", whole_number),
    ("minEventsPerTrigger", "min_events_per_trigger", whole_number),
    ("maxTriggerDelay", "max_trigger_delay", seconds_of),
    ("minPartitions", "min_partitions", whole_number),
    ("splitPartitions", "split_partitions", flag_of),
    ("failOnDataLoss", "fail_on_data_loss", flag_of),
    ("includeHeaders", "include_headers", flag_of),
    ("payload", "payload", _payload),
    ("schemaEvolution", "schema_evolution", _evolution),
    ("consumerGroup", "consumer_group", _group),
    ("coldTier", "cold_tier", _cold_tier),
    ("retryTimeout", "retry_timeout", seconds_of),
)


def _parse_offsets(name: str, text: str, event_types: tuple[str, ...]) -> Asked:
    allowed = _ALLOWED_OFFSETS if name == "startingOffsets" else _ALLOWED_OFFSETS.removeprefix("earliest, ")
    if not text.strip().startswith("{"):
        place = _start(name, text, allowed)
        if place == "earliest" and name == "endingOffsets":
            raise bad_option(name, text, allowed)
        return place
    given = object_of(name, text, allowed)
    if strays := sorted(set(given) - set(event_types)):
        raise bad_option(name, text[:200], f"event types that eventType names; {', '.join(strays)} is none of them")
    return {
        event_type: _time(name, places, allowed)
        if isinstance(places, str)
        else _parse_partition_offsets(name, places, allowed)
        for event_type, places in given.items()
    }


def _start(name: str, text: str, allowed: str) -> Word | AskedTime:
    try:
        start = resolve_start(parse_start(text, name), datetime.now(UTC))
    except BadParameter:
        raise bad_option(name, text[:200], allowed) from None
    return AskedTime(start.isoformat()) if isinstance(start, datetime) else start


def _time(name: str, text: str, allowed: str) -> AskedTime:
    start = _start(name, text, allowed)
    if isinstance(start, AskedTime):
        return start
    raise bad_option(name, text, allowed)


def _parse_partition_offsets(name: str, places: object, allowed: str) -> AskedOffsets:
    if not isinstance(places, dict):
        raise bad_option(name, places, allowed)
    epoch = places.get("epoch")
    if not (epoch is None or is_whole(epoch, 1)):
        raise bad_option(name, places, "an epoch of 1 or more")
    offsets = {}
    for partition, offset in places.items():
        if partition in MARKS:  # As they stand in a checkpoint or in a query's progress.
            continue
        lowest = EARLIEST if name == "startingOffsets" else LATEST
        if not _PARTITION.fullmatch(partition) or not is_whole(offset, lowest):
            raise bad_option(name, places, allowed)
        offsets[int(partition)] = offset
    return AskedOffsets(epoch, offsets)


def is_whole(value: object, lowest: int) -> bool:
    """Say whether *value*, from JSON, is a whole number from *lowest* on that fits into 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value < 10**18


_PARSERS_BY_TYPE: Final = (
    ("startingOffsets", "starting_offsets", _parse_offsets),
    ("endingOffsets", "ending_offsets", _parse_offsets),
    ("schemaVersion", "schema_versions", _versions),
)


def hide_key(location: str) -> str:
    """Return a path of Hadoop's style without the key and the secret that may be in it.

    >>> hide_key("s3://KEY:SECRET@lake/landing"), hide_key("abfss://lake@shop.example/landing")
    ('s3://…@lake/landing', 'abfss://lake@shop.example/landing')
    """
    return _SECRET.sub(r"\1…@", location)
