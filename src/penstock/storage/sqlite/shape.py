"""What a reader by column has to know of each event before it can cut a range apart, kept in few characters.

An event's shape is one character, whose code point is the size of its data in bytes. Before it stands `BEGINS` where
the event is the first of a block, so that it may have come at another time than the event before it, `KEYED` where it
has a key, and `SPARSE` where it has a kind or headers. SQLite joins shapes faster than it writes numbers, and Python
decodes those of a whole range at once.
"""

import sys
from typing import Final, NamedTuple

BEGINS: Final = "\U0010ffff"
KEYED: Final = "\U0010fffe"
SPARSE: Final = "\U0010fffd"
SIZE_MAX: Final = 0x10FFFC
"""No code point is left for larger events; none has more than 999 000 bytes and what a hub has written into it."""
_SIZES: Final = f"utf-32-{sys.byteorder[0]}e"


class Shapes(NamedTuple):
    """Those of a range."""

    sizes: bytes
    """As in `Columns.sizes`."""
    blocks: list[int]
    """How many neighbours there are of each block, of the first and the last only what the range has of them."""
    keyed: bool
    """Whether any event has a key."""
    sparse: bool
    """Whether any event has a kind or headers."""


def decoded(joined: bytes) -> Shapes:
    """Take joined shapes apart.

    >>> decoded(f"ab{BEGINS}{KEYED}c".encode())[1:]
    ([2, 1], True, False)
    """
    text = joined.decode(errors="surrogatepass")  # A size may be the code point of a surrogate.
    blocks = text.replace(KEYED, "").replace(SPARSE, "").split(BEGINS)
    sizes = "".join(blocks).encode(_SIZES, errors="surrogatepass")
    return Shapes(sizes, [len(block) for block in blocks if block], keyed=KEYED in text, sparse=SPARSE in text)
