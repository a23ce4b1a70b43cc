"""Where events live: the seam that the hub knows, and the two databases behind it."""

from penstock.storage.open import open_store
from penstock.storage.store import Store, Tx

__all__ = ["Store", "Tx", "open_store"]
