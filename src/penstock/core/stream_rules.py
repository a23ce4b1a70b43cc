"""How a consumer wants the events of its stream."""

import math

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream wants its events. Times are seconds."""

    max_uncommitted: int
    """How far what is sent may be ahead of what is committed, in offsets, over all partitions."""
    batch_limit: int
    """How many events make a batch, at least 1."""
    stream_limit: int = 0
    """The stream ends once so many events are sent and committed; 0: it does not."""
    flush_s: float
    """A partition sends what it has, or that it has nothing, so long after it has last sent anything."""
    timespan_s: float = 0.0
    """A batch spans no more than so long a time in which its events were received; 0: any."""
    timeout_s: float = math.inf
    keep_alive_limit: int = 0
    """The stream ends once every partition has said so often in a row that it has nothing; 0: it does not."""
    commit_s: float
    """The stream ends so long after the last commit, if anything that was sent is not committed."""
    bytes_max: int
    """How much may wait to be sent."""
