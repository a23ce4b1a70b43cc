"""The events that all benchmarks use: JSON objects of 384 bytes that differ in their number."""

from typing import Final

FEED: Final = "bench.order"
EVENT_BYTES: Final = 384
DIGITS: Final = 10
BUSINESS_FEED: Final = "bench.order.placed"
BUSINESS_SCHEMA: Final = {
    "type": "object",
    "required": ["order_id", "customer", "amount", "placed_at"],
    "properties": {
        "order_id": {"type": "string", "pattern": "^[0-9]{10}$"},
        "customer": {"type": "string", "minLength": 1},
        "amount": {"type": "number", "minimum": 0},
        "quantity": {"type": "integer", "minimum": 1},
        "currency": {"type": "string", "enum": ["EUR", "GBP", "USD"]},
        "placed_at": {"type": "string", "format": "date-time"},
        "note": {"type": "string", "maxLength": 1000},
    },
}
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


def business_event(number: int) -> str:
    """Return the business event of that number, as large as the others."""
    metadata = f'{{"eid":"00000000-0000-4000-8000-{number:012}","occurred_at":"2013-01-01T05:15:00.000Z"}}'
    spared = len(metadata) + len('"metadata":,')
    return f'{{"metadata":{metadata},{event(number)[1 : -2 - spared]}"}}'
