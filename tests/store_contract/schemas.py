"""The contract of the versions of schemas: `penstock.storage.registry.RegistryRepository`."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.storage import Store
from tests.store_contract.database import FIRST_AT, Contract, Database, created

AWKWARD = '{"description": "it\'s \\\\ %s :x ? 東京 🚰 \\n\\u0000"}'
COUNT = "SELECT count(*) FROM penstock_schema"


class SchemasContract(Contract):
    """Versions are kept as they were given, and go with their event type."""

    def test_an_event_type_comes_with_the_version_that_it_has(self, store: Store) -> None:
        feed = created(store)

        assert _listed(store, feed) == [feed.event_type.definition["schema"]]

    def test_a_version_is_found_as_it_was_given(self, store: Store) -> None:
        feed = created(store)
        given = {"type": "json_schema", "schema": AWKWARD, "version": "1.0.1", "beyond": [None, 2.5, "東京"]}

        _add(store, feed, given)

        assert _found(store, feed, "1.0.1") == given
        assert _found(store, feed, "1.0.0") == feed.event_type.definition["schema"]

    @pytest.mark.parametrize("version", ["2.0.0", "1.0", "", "1.0.0 "])
    def test_an_unknown_version_finds_nothing(self, store: Store, version: str) -> None:
        feed = created(store)

        assert _found(store, feed, version) is None

    def test_versions_are_listed_newest_first_whatever_their_numbers(self, store: Store) -> None:
        feed = created(store)
        added = ["9.0.0", "10.0.0", "10.0.1", "2.0.0"]

        _add(store, feed, *map(_schema, added))

        assert _versions(store, feed) == ["2.0.0", "10.0.1", "10.0.0", "9.0.0", "1.0.0"]

    def test_pages_of_a_list_hold_each_version_once(self, store: Store) -> None:
        feed = created(store)
        _add(store, feed, *(_schema(f"1.0.{number}") for number in range(1, 7)))

        pages = [_versions(store, feed, limit=3, offset=offset) for offset in (0, 3, 6, 9)]

        assert pages == [["1.0.6", "1.0.5", "1.0.4"], ["1.0.3", "1.0.2", "1.0.1"], ["1.0.0"], []]
        assert _versions(store, feed, limit=0) == []

    def test_event_types_have_versions_of_their_own(self, store: Store) -> None:
        feed, other = created(store), created(store, "other")

        _add(store, feed, _schema("1.0.1"))

        assert _versions(store, feed) == ["1.0.1", "1.0.0"]
        assert _versions(store, other) == ["1.0.0"]
        assert _found(store, other, "1.0.1") is None

    def test_a_version_is_taken_once(self, store: Store) -> None:
        feed = created(store)

        with pytest.raises(Exception, match=r"(?i)unique"):
            _add(store, feed, _schema("1.0.1"), _schema("1.0.0"))

        assert _versions(store, feed) == ["1.0.0"], "what went before it is undone with it"

    def test_a_dropped_event_type_takes_its_versions_along(self, store: Store, database: Database) -> None:
        feed, kept = created(store), created(store, "kept")
        _add(store, feed, _schema("1.0.1"), _schema("1.0.2"))
        _add(store, kept, _schema("1.0.1"))

        with store.write() as tx:
            tx.registry.delete(feed.name)

        assert _versions(store, feed) == []
        assert _versions(store, kept) == ["1.0.1", "1.0.0"]
        assert database.run(COUNT) == [(2,)]
        assert _versions(store, created(store, feed.name)) == ["1.0.0"]

    def test_another_process_sees_it_at_its_next_look(self, store: Store, other: Store) -> None:
        feed = created(store)
        assert _versions(other, feed) == ["1.0.0"]

        _add(store, feed, _schema("1.0.1"))

        assert _versions(other, feed) == ["1.0.1", "1.0.0"]


def _schema(version: str) -> dict[str, Any]:
    return {"type": "json_schema", "schema": "{}", "version": version}


def _add(store: Store, feed: StoredFeed, *schemas: dict[str, Any]) -> None:
    with store.write() as tx:
        for each in schemas:
            feed = tx.registry.get(feed.name)
            event_type = EventType.of(feed.event_type.definition | {"schema": each}, feed.partition_count)
            tx.registry.update(feed, event_type, FIRST_AT)


def _found(store: Store, feed: StoredFeed, version: str) -> dict[str, Any] | None:
    with store.read() as tx:
        return next(iter(tx.registry.list_schemas(feed, version=version)), None)


def _listed(store: Store, feed: StoredFeed, *, limit: int = 100, offset: int = 0) -> Sequence[dict[str, Any]]:
    with store.read() as tx:
        return tx.registry.list_schemas(feed, limit=limit, offset=offset)


def _versions(store: Store, feed: StoredFeed, *, limit: int = 100, offset: int = 0) -> list[str]:
    return [each["version"] for each in _listed(store, feed, limit=limit, offset=offset)]
