"""A shop that commits its orders and their events in one transaction, and serves the events itself.

uvicorn --app-dir examples mounted_fastapi:app
curl localhost:8000/events/event-types -d '{"name":"order.placed","owning_application":"shop","category":"undefined",
  "schema":{"type":"json_schema","schema":"{}"}}'
curl localhost:8000/orders -H 'Content-Type: application/json' -d '{"customer":"Ada"}'
curl 'localhost:8000/events/feeds/order.placed?n=1&cursor0=_first&wait=60'
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import penstock.outbox
from penstock.server import HubApp

hub = HubApp("sqlite:///shop.db")
app = FastAPI(title="Shop", lifespan=hub.lifespan)
app.mount("/events", hub)


class Order(BaseModel):
    customer: str


@app.post("/orders", status_code=201)
def place_order(order: Order) -> dict[str, int | None]:
    with transaction() as connection:
        sql = "INSERT INTO orders (customer) VALUES (?)"
        order_id = connection.execute(sql, (order.customer,)).lastrowid
        penstock.outbox.publish(connection, "order.placed", {"order_id": order_id, "customer": order.customer})
        if order.customer == "Mallory":
            raise HTTPException(403, "we do not sell to Mallory")  # Neither order nor event has happened.
    return {"order_id": order_id}


@app.get("/orders")
def count_orders() -> dict[str, int]:
    with transaction() as connection:
        (count,) = connection.execute("SELECT count(*) FROM orders").fetchone()
    return {"orders": count}


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """Everything in the block happens, or nothing does."""
    with closing(sqlite3.connect("shop.db", isolation_level=None)) as connection, connection:
        # IMMEDIATE, so that the transaction waits for its turn to write before it reads anything.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)")
        yield connection
