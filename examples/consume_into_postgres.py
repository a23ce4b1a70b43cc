"""Orders from a feed into PostgreSQL, each exactly once, by several workers.

    python examples/consume_into_postgres.py URL postgresql:///shop [WORKERS WORKER]

URL is a feed's address, such as http://localhost:8080/feeds/order.placed. Start one process for each WORKER from 0 to
WORKERS - 1; each reads its share of the partitions.
"""

import signal
import sys

import psycopg

from penstock.client import CursorTable, Feed, share

CONSUMER = "billing"


def main(url: str, database: str, workers: str = "1", worker: str = "0") -> None:
    with psycopg.connect(database) as connection:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(7)")  # Workers that start together create one at a time.
            connection.execute("CREATE TABLE IF NOT EXISTS orders (order_id bigint NOT NULL)")
            table = CursorTable(connection)
            table.create()
            cursors = table.load(url, CONSUMER)

        with Feed(url, merged=True) as feed:
            mine = share(feed.discover().partition_count, int(workers), int(worker))
            with feed.follow(cursors, partitions=mine, page_size_hint=100) as pages:
                for page in pages:
                    # One transaction: what is made of the events, and how far they have been read.
                    with connection.transaction(), connection.cursor() as cursor:
                        rows = [(event.data["order_id"],) for event in page.events]
                        cursor.executemany("INSERT INTO orders VALUES (%s)", rows)
                        table.advance(url, CONSUMER, page)
                    print(len(page.events), "orders", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    main(*sys.argv[1:])
