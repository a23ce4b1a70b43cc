"""Every kind of connection that a service may have, behind one function each: open, work in a transaction, end it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import django.conf
import django.db
import django.db.transaction
import psycopg
import sqlalchemy
import sqlalchemy.orm

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

Work = Callable[[Any], Any]
Kind = Callable[[str, Work], None]
"""Runs the work, awaiting what it returns where the connection is async, and commits; rolls back if it raises."""


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def with_sqlite3(url: str, work: Work) -> None:
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        work(connection)


def with_sqlite3_implicitly(url: str, work: Work) -> None:
    with closing(sqlite3.connect(path_of(url))) as connection, connection:
        work(connection)


def with_psycopg(url: str, work: Work) -> None:
    with psycopg.connect(url) as connection:
        work(connection)


def with_psycopg_async(url: str, work: Work) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await work(connection)

    asyncio.run(run())


def with_asyncpg(url: str, work: Work) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await work(connection)
        finally:
            await connection.close()

    asyncio.run(run())


def with_asyncpg_pool(url: str, work: Work) -> None:
    async def run() -> None:
        one = asyncpg.create_pool(url, min_size=1, max_size=1)
        async with one as pool, pool.acquire() as connection, connection.transaction():
            await work(connection)

    asyncio.run(run())


def with_sqlalchemy_connection(url: str, work: Work) -> None:
    with engine(url) as opened, opened.begin() as connection:
        work(connection)


def with_sqlalchemy_session(url: str, work: Work) -> None:
    with engine(url) as opened, sqlalchemy.orm.Session(opened) as session, session.begin():
        work(session)


def with_sqlalchemy_scoped_session(url: str, work: Work) -> None:
    with engine(url) as opened:
        registry = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(opened))
        try:
            with registry.begin():
                work(registry)
        finally:
            registry.remove()


def with_sqlalchemy_async_connection(url: str, work: Work) -> None:
    async def run() -> None:
        async with async_engine(url, "psycopg") as opened, opened.begin() as connection:
            await work(connection)

    asyncio.run(run())


def with_sqlalchemy_async_session(url: str, work: Work) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession

    async def run() -> None:
        opening = async_engine(url, "asyncpg")
        async with opening as opened, AsyncSession(opened) as session, session.begin():
            await work(session)

    asyncio.run(run())


def with_sqlalchemy_async_scoped_session(url: str, work: Work) -> None:
    from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker

    async def run() -> None:
        async with async_engine(url, "asyncpg") as opened:
            makes = async_sessionmaker(opened)
            registry = async_scoped_session(makes, scopefunc=asyncio.current_task)
            try:
                async with registry.begin():
                    await work(registry)
            finally:
                await registry.remove()

    asyncio.run(run())


def with_django(url: str, work: Work) -> None:
    with django_on(url), django.db.transaction.atomic():
        work(django.db.connection)


SQLITE_KINDS: tuple[Kind, ...] = (
    with_sqlite3,
    with_sqlite3_implicitly,
    with_sqlalchemy_connection,
    with_sqlalchemy_session,
    with_sqlalchemy_scoped_session,
    with_django,
)
POSTGRES_KINDS: tuple[Kind, ...] = (
    with_psycopg,
    with_psycopg_async,
    with_asyncpg,
    with_asyncpg_pool,
    with_sqlalchemy_connection,
    with_sqlalchemy_session,
    with_sqlalchemy_async_connection,
    with_sqlalchemy_async_session,
    with_sqlalchemy_async_scoped_session,
    with_django,
)


@contextmanager
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    """A SQLAlchemy engine that leaves nothing open."""
    opened = sqlalchemy.create_engine(driver_url(url, "psycopg"))
    try:
        yield opened
    finally:
        opened.dispose()


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncIterator["AsyncEngine"]:
    """The same for an async one; imported here, because it needs greenlet, which all else does without."""
    from sqlalchemy.ext.asyncio import create_async_engine

    opened = create_async_engine(driver_url(url, driver))
    try:
        yield opened
    finally:
        await opened.dispose()


@contextmanager
def django_on(url: str, **options: Any) -> Iterator[None]:
    """Let Django's default connection be to the database at *url*."""
    connections = django.db.connections
    if not django.conf.settings.configured:
        django.conf.settings.configure(INSTALLED_APPS=["penstock.outbox.django"], DATABASES={"default": {}})
        django.setup()
    before = connections.settings
    connections.settings = connections.configure_settings({"default": django_database(url) | options})
    try:
        yield
    finally:
        django.db.connection.close()
        del connections["default"]
        connections.settings = before


def django_database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    given = sqlalchemy.make_url(url)
    place = {"NAME": given.database, "USER": given.username, "HOST": given.host, "PORT": given.port}
    return {"ENGINE": "django.db.backends.postgresql", **place}


def driver_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


def fetch(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return what *query* finds, on a connection of its own."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url))) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(url) as session:
        return session.execute(query.encode()).fetchall()


class Service(NamedTuple):
    """A service with one kind of connection to one database."""

    url: str
    kind: Kind

    def transact(self, work: Work) -> None:
        """Do *work* in a transaction of its own, which is rolled back if it raises."""
        self.kind(self.url, work)

    def outbox(self, columns: str = "event_type, data") -> list[tuple[Any, ...]]:
        """Return what has been committed to the outbox, in order."""
        return fetch(self.url, f"SELECT {columns} FROM penstock_outbox ORDER BY id")
