"""The options of format("messagedb"): Spark's strings in, one frozen value out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from penstock.core.database_url import plain_url
from penstock.errors import BadParameter
from penstock.spark.messagedb.places import FIRST
from penstock.spark.options import EARLIEST, LATEST, bad_option, is_whole, known_options, seconds_of, whole_number

NAMES: Final = (
    "url",
    "category",
    "startingOffsets",
    "endingOffsets",
    "maxEventsPerTrigger",
    "minPartitions",
    "schema",
    "retryTimeout",
)
_SCHEMES: Final = ("postgresql://", "postgres://")
_URL: Final = "the address of a PostgreSQL database, such as postgresql://message_store@localhost:5432/message_store"
_POSITIONS: Final = (
    'JSON such as {"account": 17}, the global position wanted next, where -2 is the earliest and -1 the latest'
)

Asked: TypeAlias = Literal["earliest", "latest"] | dict[str, int]
"""By category: a global position, EARLIEST or LATEST."""


@dataclass(frozen=True, kw_only=True)
class CategoryOptions:
    """What a query wants to read, and how."""

    url: str = field(repr=False)
    """Of the database. It may hold a password."""
    categories: tuple[str, ...]
    """In the order given, each once."""
    starting_offsets: Asked = "earliest"
    """Where a batch or a new stream begins; categories that JSON leaves out begin at their first event."""
    ending_offsets: Asked = "latest"
    """Where a batch ends; categories that JSON leaves out are read to their end."""
    max_events_per_trigger: int = 100_000
    """The most that a micro-batch takes, over all categories."""
    min_partitions: int | None = None
    """At least so many tasks, where there are so many events; None: as many as keep this machine's cores busy."""
    schema: str = "message_store"
    """The schema of the database in which MessageDB is installed."""
    retry_timeout: float = 120.0
    """How long a read waits for a database that does not answer; 0: not at all."""


def parse_category_options(given: Mapping[str, str]) -> CategoryOptions:
    """Read the options of a query; their names may be in any case.

    Raises:
        BadParameter: one is missing, unknown or wrong; names it, what was given and what is allowed.
        ModuleNotFoundError: psycopg is missing; says what to install.
    """
    values = known_options(given, NAMES)
    categories = _categories(values.get("category"))
    chosen: dict[str, Any] = {}
    for name, attribute in (("startingOffsets", "starting_offsets"), ("endingOffsets", "ending_offsets")):
        if name in values:
            chosen[attribute] = _asked(name, values[name], categories)
    for name, attribute in (("maxEventsPerTrigger", "max_events_per_trigger"), ("minPartitions", "min_partitions")):
        if name in values:
            chosen[attribute] = whole_number(name, values[name])
    if "schema" in values:
        chosen["schema"] = _schema(values["schema"])
    if "retryTimeout" in values:
        chosen["retry_timeout"] = seconds_of("retryTimeout", values["retryTimeout"])
    options = CategoryOptions(url=_url(values.get("url")), categories=categories, **chosen)
    if "endingOffsets" in values:
        _refuse_wrong_end(options, values["endingOffsets"])
    return options


def start_of(options: CategoryOptions, category: str, head: int) -> int:
    """Return where startingOffsets has *category* begin, which ends at *head* now."""
    asked = options.starting_offsets
    wanted = asked.get(category, EARLIEST) if isinstance(asked, dict) else LATEST if asked == "latest" else EARLIEST
    return {EARLIEST: FIRST, LATEST: head}.get(wanted, wanted)


def end_of(options: CategoryOptions, category: str, head: int) -> int:
    """Return where endingOffsets has *category* end, which ends at *head* now; what comes later is none of a batch."""
    asked = options.ending_offsets
    wanted = asked.get(category, LATEST) if isinstance(asked, dict) else LATEST
    return head if wanted == LATEST else min(wanted, head)


def _url(text: str | None) -> str:
    """Return the option url. It is shown in no error: what is wrong in it may be the place of a password."""
    if not (text or "").strip():
        raise bad_option("url", text, _URL)
    assert text is not None
    url = plain_url(text)
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError as error:
        missing = "format('messagedb') needs psycopg: pip install 'penstock-hub[postgres,spark]'"
        raise ModuleNotFoundError(missing, name=error.name) from error
    if not url.startswith(_SCHEMES):
        raise bad_option("url", "(not shown)", _URL)
    try:
        conninfo_to_dict(url)
    except (ProgrammingError, UnicodeError):
        raise bad_option("url", "(not shown)", _URL) from None
    return url


def _categories(text: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",")))
    if not all(names):
        raise bad_option("category", text, "the name of a category, or several separated by commas")
    if strays := [name for name in names if "-" in name or "\0" in name]:
        raise bad_option("category", strays[0], "what stands before the first - of a stream's name, such as account")
    return names


def _schema(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise bad_option("schema", text, "the name of the schema in which MessageDB is installed")
    return text.strip()


def _asked(name: str, text: str, categories: tuple[str, ...]) -> Asked:
    word, is_start = text.strip().lower(), name == "startingOffsets"
    if word == "latest":
        return "latest"
    if word == "earliest" and is_start:
        return "earliest"
    refused = bad_option(name, text[:200], f"{'earliest, ' if is_start else ''}latest, {_POSITIONS}")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise refused from None
    if not isinstance(given, dict):
        raise refused
    if strays := sorted(set(given) - set(categories)):
        raise bad_option(name, text[:200], f"categories that category names; {', '.join(strays)} is none of them")
    asked = {category: place["next"] if _is_kept(place) else place for category, place in given.items()}
    if not all(is_whole(position, EARLIEST if is_start else LATEST) for position in asked.values()):
        raise refused
    return asked


def _is_kept(place: object) -> bool:
    """Say whether *place* stands as in a checkpoint or in a query's progress."""
    return isinstance(place, dict) and "next" in place


def _refuse_wrong_end(options: CategoryOptions, ending: str) -> None:
    starts, ends = options.starting_offsets, options.ending_offsets
    if starts == "latest":
        raise bad_option("endingOffsets", ending, "in a batch only, which cannot begin at startingOffsets=latest")
    if isinstance(starts, dict) and isinstance(ends, dict):
        for category in starts.keys() & ends.keys():
            if 0 <= ends[category] < starts[category]:
                raise _before_start(category, starts[category], ends[category])


def _before_start(category: str, start: int, end: int) -> BadParameter:
    return bad_option("endingOffsets", end, f"for {category!r}, {start} or more: it begins there")
