import sys
from pathlib import Path

import pytest

from penstock.errors import BadParameter
from penstock.storage import open_store
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore


def test_path_of_a_file_is_relative_or_absolute_by_its_slashes() -> None:
    for url, path in (
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:///data/shop.db", "data/shop.db"),
        ("sqlite:////var/lib/shop.db", "/var/lib/shop.db"),
    ):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        assert (store.path, store.url) == (Path(path), url)


def test_open_store_connects_to_nothing_and_creates_no_file(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/shop.db").close()
    open_store("postgresql://nobody@nowhere.invalid/shop").close()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg", "\npostgres"])
def test_postgresql_has_several_spellings(scheme: str) -> None:
    store = open_store(f"{scheme}://me@there/shop\n")

    assert isinstance(store, PostgresStore)
    assert store.url == "postgresql://there/shop"


@pytest.mark.parametrize(
    "url",
    ["", "shop.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://shop.db", "mysql://there/shop"],
)
def test_unknown_database_url_is_refused_with_the_known_forms(url: str) -> None:
    with pytest.raises(BadParameter, match="sqlite:///FILE or postgresql://") as told:
        open_store(url)

    assert told.value.value == url


def test_missing_psycopg_is_reported_with_its_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("penstock.storage.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'penstock-hub\[postgres\]'"):
        open_store("postgresql://me@there/shop")
    assert isinstance(open_store("sqlite:///shop.db"), SqliteStore)
