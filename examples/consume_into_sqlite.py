"""Orders from a feed into SQLite, each exactly once: `python examples/consume_into_sqlite.py URL orders.db`.

URL is a feed's address, such as http://localhost:8080/feeds/order.placed. Kill it whenever you like, and start it
again.
"""

import signal
import sqlite3
import sys

from penstock.client import CursorTable, Feed, Page

CONSUMER = "billing"


def store(connection: sqlite3.Connection, url: str, page: Page) -> None:
    with connection:
        # One transaction: what is made of the events, and how far they have been read.
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO orders VALUES (?)", [(event.data["order_id"],) for event in page.events])
        CursorTable(connection).advance(url, CONSUMER, page)


def main(url: str, path: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (order_id INTEGER NOT NULL)")
    CursorTable(connection).create()
    cursors = CursorTable(connection).load(url, CONSUMER)

    with Feed(url) as feed, feed.follow(cursors, page_size_hint=100) as pages:
        for page in pages:
            store(connection, url, page)
            print(len(page.events), "orders", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    main(*sys.argv[1:])
