"""Addresses of hubs and of databases on the command line: those that are taken, and what is said of others."""

import pytest
import typer

from penstock.cli.database_url import check_database
from penstock.cli.failures import CommandFailure
from penstock.cli.options import check_url
from penstock.core.database_url import show_url
from penstock.storage.postgres.store import PostgresStore


def test_address_requires_a_scheme_a_host_and_a_valid_port() -> None:
    assert check_url("https://hub.example/penstock") == "https://hub.example/penstock"
    with pytest.raises(typer.BadParameter, match="begins with http:// or https://, such as http://localhost:8080"):
        check_url("localhost:8080")
    for url in ("http://", "http://localhost:port", "http://a b"):
        with pytest.raises(typer.BadParameter, match=f"'{url}' is not an address"):
            check_url(url)


@pytest.mark.parametrize(
    "url", ["sqlite:///shop.db", "sqlite:////var/lib/shop.db", "postgresql:///shop", "postgres://x"]
)
def test_known_database_url_is_taken(url: str) -> None:
    assert check_database(url) == url


@pytest.mark.parametrize("given", ["sqlite:///shop.db\n", " sqlite+aiosqlite:///shop.db", "sqlite+pysqlite:///shop.db"])
def test_url_is_taken_without_line_break_and_driver(given: str) -> None:
    assert check_database(given) == "sqlite:///shop.db"


@pytest.mark.parametrize(
    ("given", "proposed"),
    [
        ("shop.db", "sqlite:///shop.db"),
        ("data/shop.db", "sqlite:///data/shop.db"),
        ("/var/lib/shop.db", "sqlite:////var/lib/shop.db"),
        ("sqlite:shop.db", "sqlite:///shop.db"),
        ("sqlite://shop.db", "sqlite:///shop.db"),
        ("sqlite:/var/lib/shop.db", "sqlite:////var/lib/shop.db"),
    ],
)
def test_path_is_answered_with_the_url_of_the_file(given: str, proposed: str) -> None:
    with pytest.raises(CommandFailure) as refused:
        check_database(given)

    assert refused.value.status == 2
    assert refused.value.detail == f"{given} is not the URL of a database"
    assert f"is {proposed}; " in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("mysql://me:secret@somewhere/x", "mysql://somewhere/x names no database"),
        ("host=somewhere password=secret", "what --database says names no database"),
        ("me:secret@somewhere/x", "what --database says names no database"),
        ("sqlite:///", "sqlite:/// names no database"),
        ("sqlite:///:memory:", "sqlite:///:memory: names no database"),
        ("", "what --database says names no database"),
    ],
)
def test_unknown_database_url_is_shown_without_its_password(given: str, says: str) -> None:
    with pytest.raises(CommandFailure) as refused:
        check_database(given)

    assert (refused.value.status, refused.value.detail) == (2, says)
    assert "secret" not in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:secret@db:6432/shop?sslmode=require", "postgresql://db:6432/shop"),
        ("postgresql://me:secret@/shop?host=db&port=6432", "postgresql://db:6432/shop"),
        ("postgresql://me:secret@db/shop?port=6432&password=secret", "postgresql://db:6432/shop"),
        ("postgresql://me:secret@a,b/shop?port=1,2", "postgresql://a:1,b:2/shop"),
        ("postgresql://[::1]/?dbname=shop&port=6432", "postgresql://[::1]:6432/shop"),
        ("postgresql:///shop?host=/run/postgresql", "postgresql:///shop?host=%2Frun%2Fpostgresql"),
        ("postgresql:///shop?port=6432", "postgresql:///shop?port=6432"),
        ("postgresql://me:sec?ret@db/shop", "postgresql://…"),
    ],
)
def test_database_is_shown_with_its_host_and_port_wherever_they_stand(given: str, shown: str) -> None:
    assert show_url(given) == shown
    if "…" not in shown:
        assert PostgresStore(given).url == shown
