"""An order and its event, committed together with sqlite3: `python examples/outbox_sqlite3.py shop.db`.

Beforehand: `penstock migrate --database sqlite:///shop.db`, `penstock event-type create order.placed`.
"""

import sqlite3
import sys

import penstock.outbox


def place_order(connection: sqlite3.Connection, customer: str) -> None:
    with connection:
        # IMMEDIATE, so that the transaction waits for its turn to write before it reads anything.
        connection.execute("BEGIN IMMEDIATE")
        order_id = connection.execute("INSERT INTO orders (customer) VALUES (?)", (customer,)).lastrowid
        penstock.outbox.publish(connection, "order.placed", {"order_id": order_id, "customer": customer})


def main(path: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)")
    place_order(connection, "Ada")
    connection.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/outbox_sqlite3.py shop.db")
    main(sys.argv[1])
