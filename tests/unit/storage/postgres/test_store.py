import pytest

from penstock.storage.postgres.store import PostgresStore


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@there:5432/shop", "postgresql://there:5432/shop"),
        ("postgres://me:secret@there/shop?password=secret", "postgresql://there/shop"),
        ("postgresql://there/shop", "postgresql://there/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
    ],
)
def test_url_of_a_store_has_no_secret(url: str, shown: str) -> None:
    store = PostgresStore(url)

    assert store.url == shown
    store.close()


def test_unused_store_can_be_closed_twice() -> None:
    store = PostgresStore("postgresql://nobody@nowhere.invalid/shop")

    store.close()
    store.close()
