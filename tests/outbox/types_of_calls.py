"""Types of what the outbox returns, checked by mypy: None, or an awaitable where the connection is async."""

import sqlite3
from collections.abc import Awaitable
from typing import Any, assert_type

import psycopg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from penstock import outbox


def publish_in_transaction(
    connection: sqlite3.Connection | psycopg.Connection[Any] | Connection | Session, events: list[dict[str, Any]]
) -> None:
    assert_type(outbox.create(connection), None)
    assert_type(outbox.publish(connection, "order.placed", {"order_id": 7}), None)
    assert_type(outbox.publish_many(connection, "order.placed", events), None)


async def publish_in_async_transaction(
    connection: AsyncConnection | AsyncSession, events: list[dict[str, Any]]
) -> None:
    created = outbox.create(connection)
    assert_type(created, Awaitable[None])
    await created
    await outbox.publish(connection, "order.placed", {"order_id": 7})
    await outbox.publish_many(connection, "order.placed", events)
