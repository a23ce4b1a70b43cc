"""What a definition says of the event type itself: its name, owner, category, how it may change, its partitions."""

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.draft import Draft
from penstock.core.guidelines.fields import find, is_required, top_level
from penstock.core.guidelines.guideline import Finding, Guideline
from penstock.core.guidelines.names import says_event_id

_URL_SAFE: Final = re.compile(r"[A-Za-z0-9._~-]+")
_STYLE: Final = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_CATEGORIES: Final = ("business", "data")


def check_declaration(draft: Draft) -> Iterator[Finding]:
    """Yield what is wrong with what the event type says of itself."""
    yield from _name(draft)
    yield from _owner(draft)
    yield from _category(draft)
    yield from _ids(draft)
    yield from _changes(draft)
    yield from _partitions(draft)


def _broken(rule: Guideline, member: str, found: str) -> Finding:
    return Finding(rule, "definition", f"#/{member}", found)


def _name(draft: Draft) -> Iterator[Finding]:
    name = draft.definition.get("name")
    if not isinstance(name, str) or not name:
        yield _broken(rules.NAME_URL_SAFE, "name", "it has no name")
    elif not _URL_SAFE.fullmatch(name):
        strange = next(letter for letter in name if not _URL_SAFE.fullmatch(letter))
        yield _broken(rules.NAME_URL_SAFE, "name", f"the name holds {strange!r}, which a URL has to escape")
    elif not _STYLE.fullmatch(name):
        yield _broken(rules.NAME_STYLE, "name", f"{name!r} is not made of words in lower case with one separator each")


def _owner(draft: Draft) -> Iterator[Finding]:
    if not draft.text("owning_application"):
        yield _broken(rules.OWNERSHIP, "owning_application", "it names no application that owns it")


def _category(draft: Draft) -> Iterator[Finding]:
    if draft.category not in _CATEGORIES:
        given = f"the category is {draft.category!r}" if draft.category else "it has no category"
        yield _broken(rules.CATEGORY, "category", f"{given}, which says neither `business` nor `data`")
    if draft.category != "data" and find(draft.schema or {}, ("data_op",)):
        found = "the schema has a `data_op` of its own: the events seem to be changes of data"
        yield _broken(rules.DATA_CATEGORY, "category", found)
    elif draft.category not in _CATEGORIES and find(draft.schema or {}, ("metadata", "eid")):
        found = "the schema has a `metadata.eid` of its own: the events seem to be business events"
        yield _broken(rules.BUSINESS_CATEGORY, "category", found)


def _ids(draft: Draft) -> Iterator[Finding]:
    if draft.category in _CATEGORIES:
        return  # `metadata.eid` is wanted of each of their events.
    schema = draft.schema or {}
    likely = [
        ("metadata", "eid"),
        *((field.name,) for field in top_level(schema) if field.name and says_event_id(field.name)),
    ]
    if not any(is_required(schema, path) for path in likely):
        yield Finding(rules.UNIQUE_IDS, "schema", "#/required", "no field is required that could be the event's own id")


def _changes(draft: Draft) -> Iterator[Finding]:
    if draft.text("compatibility_mode").lower() == "none":
        found = "the mode is `none`, in which any change of the schema goes through"
        yield _broken(rules.BACKWARD_COMPATIBLE, "compatibility_mode", found)


def _partitions(draft: Draft) -> Iterator[Finding]:
    given = draft.definition.get("partition_count")
    counts: dict[str, Any] = {"partition_count": given}
    statistic = draft.definition.get("default_statistic")
    if given is None and isinstance(statistic, dict):
        both = ("read_parallelism", "write_parallelism")
        counts = {f"default_statistic/{name}": statistic.get(name) for name in both}
    member, count = max(((each, _count(counts[each])) for each in counts), key=itemgetter(1))
    if count & (count - 1):
        below = 1 << (count.bit_length() - 1)
        found = f"it has {count} partitions, which is no power of two as {below} and {2 * below} are"
        yield _broken(rules.PARTITION_COUNT, member, found)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 1
