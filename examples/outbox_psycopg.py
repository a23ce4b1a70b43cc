"""An order and its event, committed together with psycopg: `python examples/outbox_psycopg.py postgresql:///shop`.

Beforehand: `penstock migrate --database postgresql:///shop`, `penstock event-type create order.placed`.
"""

import sys

import psycopg

import penstock.outbox


def place_order(connection: psycopg.Connection, customer: str) -> None:
    with connection.transaction():
        found = connection.execute("INSERT INTO orders (customer) VALUES (%s) RETURNING id", (customer,)).fetchone()
        assert found is not None
        penstock.outbox.publish(connection, "order.placed", {"order_id": found[0], "customer": customer})


def main(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, customer text NOT NULL)")
        place_order(connection, "Ada")


if __name__ == "__main__":
    main(sys.argv[1])
