"""The events that all benchmarks use: JSON objects of 384 bytes that differ in their number."""

from typing import Final

FEED: Final = "bench.order"
EVENT_BYTES: Final = 384
DIGITS: Final = 10
SPARK_SCHEMA: Final = (
    "order_id STRING, customer STRING, amount DOUBLE, quantity INT, currency STRING, placed_at TIMESTAMP, note STRING"
)

_NOTE: Final = "Left with the neighbours at number 12; ring twice. "
_AFTER: Final = (
    '","customer":"customer-00417","amount":219.95,"quantity":3,"currency":"EUR",'
    '"placed_at":"2013-01-01T05:15:00Z","note":"'
)
BEFORE: Final = '{"order_id":"'
AFTER: Final = _AFTER + (_NOTE * 8)[: EVENT_BYTES - len(BEFORE) - DIGITS - len(_AFTER) - 2] + '"}'
"""An event is BEFORE, its number in ten digits, AFTER: so SQL can make them by itself."""


def event(number: int) -> str:
    """Return the event of that number."""
    return f"{BEFORE}{number:0{DIGITS}}{AFTER}"


def line(number: int) -> str:
    """Return the line by which the event is published."""
    return f'{{"data":{event(number)}}}\n'
