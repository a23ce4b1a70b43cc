"""What the owner of an event type, or of a subscription, chooses from."""

from typing import Literal

Category = Literal["undefined", "business", "data"]
"""Any object; a step of a business process, with metadata; a change of data, with metadata."""
PartitionStrategy = Literal["random", "hash", "user_defined"]
CleanupPolicy = Literal["delete", "compact", "compact_and_delete"]
"""Whether old events go by their age, or but for the last of each key, or both."""
Mode = Literal["none", "forward", "compatible"]
"""Which changes of the schema are allowed: all; those that old consumers can live with; those that harm nobody."""
Evolution = Literal["nakadi", "consumers"]
"""By whose list the mode `forward` goes: Nakadi's, or also the event guidelines' list of what suits consumers."""
ReadFrom = Literal["begin", "end", "cursors"]
"""Where a subscription begins."""
Unprocessable = Literal["SKIP_EVENT", "DEAD_LETTER_QUEUE"]
"""What becomes of an event that was sent as often as it may be, and was never committed; as Nakadi has it."""
