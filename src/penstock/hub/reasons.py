"""Why streams of subscriptions end: what their consumers are told."""

from typing import Final

BLOCKED: Final = "Consumption is blocked"
DELETED: Final = "The subscription was deleted"
GIVEN_BACK: Final = "The consumer has given its partitions back"
GROWN: Final = "The subscription has other partitions by now: begin another stream"
RESETTING: Final = "Resetting subscription cursors"
STOPPING: Final = "The hub is stopping: go on with another one"
TIME_OVER: Final = "The stream was counted as gone: begin another one"
