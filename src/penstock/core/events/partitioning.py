"""Nakadi's partition strategy `hash`, bit for bit.

Source: Nakadi's partition strategies, https://nakadi.io/manual.html, and docs/decisions/nakadi-contract.md.
"""

import json
from functools import lru_cache
from typing import Any, Final

from penstock.schema.json_text import java_double
from penstock.schema.traversal import Path


def text_order(count: int) -> tuple[int, ...]:
    """Return the partitions in the order in which the strategies number them: sorted as texts.

    >>> text_order(12)
    (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)
    """
    return tuple(int(name) for name in sorted(map(str, range(count))))


def java_hash(text: str) -> int:
    """Return Java's String.hashCode of *text*: over UTF-16 units, in signed 32-bit arithmetic.

    >>> java_hash("order-1"), java_hash("polygenelubricants")
    (-1207111310, -2147483648)
    """
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-le", "surrogatepass")
        for at in range(0, len(units), 2):
            value = (31 * value + units[at] + (units[at + 1] << 8)) & 0xFFFFFFFF
    return _to_signed(value)


@lru_cache(maxsize=65_536)
def hash_partition(texts: tuple[str, ...], count: int) -> int:
    """Return the partition of the key *texts* among *count*, by the sum of their hashes: order is irrelevant.

    >>> [hash_partition(("order-1",), n) for n in (3, 4, 8, 12)]
    [2, 2, 6, 10]
    """
    return text_order_of(count)[abs(_to_signed(sum(map(java_hash, texts)) & 0xFFFFFFFF)) % count]


text_order_of: Final = lru_cache(maxsize=1_024)(text_order)


def key_text(event: dict[str, Any], path: Path) -> str:
    """Return the text of the value at *path*, as Java's toString formats it.

    Raises:
        KeyError: a step of the path is missing or is not in an object; the argument is the path as text.
    """
    value: Any = event
    for step in path:
        if type(value) is not dict or step not in value:
            raise KeyError(".".join(path))
        value = value[step]
    return value if type(value) is str else _java_text(value)


def _java_text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, float):
        return java_double(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value
