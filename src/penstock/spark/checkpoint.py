"""A checkpoint, and the options of a query that goes on from it: where they disagree, and which of them wins."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from penstock.spark.offsets import FeedPlace
from penstock.spark.options import SourceOptions, bad_option

_log: Final = logging.getLogger("penstock.spark")


def add_versions(
    places: Mapping[str, FeedPlace], versions: Mapping[str, str], reset: int | None
) -> dict[str, FeedPlace]:
    """Return *places* as they are kept: with the versions of the schemas in use, and the newest reset heeded.

    >>> add_versions({"a": FeedPlace(1, (7,))}, {"a": "1.0.0"}, None)["a"].schema
    '1.0.0'
    """
    return {name: place._replace(schema=versions.get(name), reset=reset) for name, place in places.items()}


def find_unwanted_places(places: Mapping[str, FeedPlace], wanted: Collection[str]) -> dict[str, FeedPlace]:
    """Return those of *places* whose event types are not *wanted* now: they stay until they are wanted again.

    >>> places = {"a": FeedPlace(1, (7,), begun=FeedPlace(1, (3,))), "b": FeedPlace(1, (4,))}
    >>> find_unwanted_places(places, ["b"])["a"].begun is None
    True
    """
    return {name: place._replace(begun=None) for name, place in places.items() if name not in wanted}


def check_checkpoint(
    kept: Mapping[str, FeedPlace], options: SourceOptions, versions: Mapping[str, str], *, is_new: bool = False
) -> None:
    """Log a warning for each difference between *kept*, from which a query continues, and its options.

    A query that *is_new* has completed no micro-batch, but may have to repeat one.

    Raises:
        BadParameter: typed columns would be those of another schema than the checkpoint's, and no option allows that.
    """
    if options.starting_offsets not in (None, "earliest") and not is_new:
        tell_beginning()
    tell_difference(kept, options.event_types, "eventType")
    for name, version in versions.items():
        was = kept[name].schema if name in kept else None
        if was in (None, version):
            continue
        said = f"the schema of {name!r} was {was} when the checkpoint was written, and is {version} now"
        if name not in options.schema_versions and options.schema_evolution == "pinned":
            allowed = f"latest, for the columns of {version}; or say schemaVersion={was}, for those of before: {said}"
            raise bad_option("schemaEvolution", "pinned", allowed)
        wins = "schemaVersion" if name in options.schema_versions else "schemaEvolution=latest"
        _log.warning("%s; %s wins: columns are those of %s", said, wins, version)


def tell_beginning(option: str = "startingOffsets") -> None:
    """Log that *option*, which says where to begin, does not count, since the query goes on."""
    _log.warning("the query goes on from its checkpoint, which wins: %s counts for a new one alone", option)


def tell_difference(kept: Iterable[str], wanted: Sequence[str], option: str) -> None:
    """Log the names that the checkpoint has *kept* and *option* no longer has in *wanted*, and the new ones."""
    if left := sorted(set(kept) - set(wanted)):
        _log.warning("the checkpoint has %s, too; %s wins: they are not read", ", ".join(left), option)
    if added := [name for name in wanted if name not in set(kept)]:
        _log.warning("the checkpoint does not have %s: they are read from their beginning", ", ".join(added))
