"""An order and its event, committed together with asyncpg: `python examples/outbox_asyncpg.py postgresql:///shop`.

Beforehand: `penstock migrate --database postgresql:///shop`, `penstock event-type create order.placed`.
"""

import asyncio
import sys

import asyncpg

import penstock.outbox


async def place_order(pool: asyncpg.Pool, customer: str) -> None:
    async with pool.acquire() as connection, connection.transaction():
        order_id = await connection.fetchval("INSERT INTO orders (customer) VALUES ($1) RETURNING id", customer)
        event = {"order_id": order_id, "customer": customer}
        await penstock.outbox.publish(connection, "order.placed", event)


async def main(url: str) -> None:
    async with asyncpg.create_pool(url) as pool:
        await pool.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, customer text NOT NULL)")
        await place_order(pool, "Ada")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
