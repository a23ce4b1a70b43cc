"""An order and its event, committed together with SQLAlchemy: `python examples/outbox_sqlalchemy.py sqlite:///shop.db`.

PostgreSQL works as well: `postgresql+psycopg://…`. With AsyncSession the publish is awaited, the rest is the same.
Beforehand: `penstock migrate --database sqlite:///shop.db`, `penstock event-type create order.placed`.
"""

import sys
from typing import Any

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import penstock.outbox


class Model(DeclarativeBase):
    pass


class Order(Model):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


def begin_immediately(engine: sqlalchemy.Engine) -> None:
    """Let every transaction wait for its turn to write before it reads anything, where the database is SQLite."""

    @event.listens_for(engine, "connect")
    def leave_beginning_to_us(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def place_order(session: Session, customer: str) -> None:
    order = Order(customer=customer)
    session.add(order)
    session.flush()  # Gives the order its id.
    penstock.outbox.publish(session, "order.placed", {"order_id": order.id, "customer": customer})


def main(url: str) -> None:
    engine = sqlalchemy.create_engine(url)
    if engine.dialect.name == "sqlite":
        begin_immediately(engine)
    Model.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        place_order(session, "Ada")
    engine.dispose()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/outbox_sqlalchemy.py sqlite:///shop.db")
    main(sys.argv[1])
