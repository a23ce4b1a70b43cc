"""An order and its event, committed together with Django: `python examples/outbox_django.py shop.db`.

The settings would be a project's own; on SQLite, `transaction_mode` is what matters. The outbox's migration creates its
table; `penstock migrate --database sqlite:///shop.db` and `penstock event-type create order.placed` do the rest.
"""

import sys

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

import penstock.outbox


def configure(path: str) -> None:
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},  # Wait for the turn to write before anything is read.
    }
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["penstock.outbox.django"])
    django.setup()


def place_order(customer: str) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:  # A model's `save` belongs here just as well.
            cursor.execute("INSERT INTO orders (customer) VALUES (%s)", [customer])
            order_id = cursor.lastrowid
        penstock.outbox.publish(connection, "order.placed", {"order_id": order_id, "customer": customer})


def main(path: str) -> None:
    configure(path)
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)")
    place_order("Ada")


if __name__ == "__main__":
    main(sys.argv[1])
