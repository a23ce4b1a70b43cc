"""The contract of the versions of schemas: `penstock.storage.registry.RegistryRepository`."""

from typing import Any

import pytest

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.storage import Store
from tests.store_contract.database import FIRST_AT, Contract, Database, created

AWKWARD = '{"description": "it\'s \\\\ %s :x ? 東京 🚰 \\n\\u0000"}'


class SchemasContract(Contract):
    """Versions are kept as they were given, and go with their event type."""

    def test_versions_are_found_as_given_and_listed_newest_first_page_by_page(self, store: Store) -> None:
        feed, other = created(store), created(store, "other")
        first = feed.event_type.definition["schema"]
        awkward = {"type": "json_schema", "schema": AWKWARD, "version": "10.0.1", "beyond": [None, 2.5, "東京"]}

        _add(store, feed, _schema("9.0.0"), _schema("10.0.0"), awkward, _schema("2.0.0"))

        assert _versions(store, feed) == ["2.0.0", "10.0.1", "10.0.0", "9.0.0", "1.0.0"]
        pages = [_versions(store, feed, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
        assert pages == [["2.0.0", "10.0.1"], ["10.0.0", "9.0.0"], ["1.0.0"], []]
        assert _versions(store, feed, limit=0) == []
        assert (_found(store, feed, "10.0.1"), _found(store, feed, "1.0.0")) == (awkward, first)
        assert [_found(store, feed, version) for version in ("3.0.0", "1.0", "", "1.0.0 ")] == [None] * 4
        assert (_versions(store, other), _found(store, other, "10.0.1")) == (["1.0.0"], None)

    def test_taken_version_is_refused_and_undoes_its_transaction(self, store: Store) -> None:
        feed = created(store)

        with pytest.raises(Exception, match=r"(?i)unique"):
            _add(store, feed, _schema("1.0.1"), _schema("1.0.0"))

        assert _versions(store, feed) == ["1.0.0"]

    def test_versions_go_with_their_event_type(self, store: Store, database: Database) -> None:
        feed, kept = created(store), created(store, "kept")
        for each in (feed, kept):
            _add(store, each, _schema("1.0.1"))

        with store.write() as tx:
            tx.registry.delete(feed.name)

        assert (_versions(store, feed), _versions(store, kept)) == ([], ["1.0.1", "1.0.0"])
        assert database.run("SELECT count(*) FROM penstock_schema") == [(2,)]
        assert _versions(store, created(store, feed.name)) == ["1.0.0"]


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


def _versions(store: Store, feed: StoredFeed, *, limit: int = 100, offset: int = 0) -> list[str]:
    with store.read() as tx:
        return [each["version"] for each in tx.registry.list_schemas(feed, limit=limit, offset=offset)]
