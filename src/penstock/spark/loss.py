"""What is done about events that a query was to read and that are gone: failOnDataLoss."""

import logging
from typing import Final

from penstock.errors import EventsLost

_log: Final = logging.getLogger("penstock.spark")


def report_loss(fail: bool, *, event_type: str, partition: int | None, lost: int | None, reason: str) -> None:
    """Raise EventsLost, or, unless *fail*, log it as a warning and return.

    Args:
        fail: The option failOnDataLoss.
        event_type: The feed.
        partition: None stands for all of them.
        lost: How many events; None when nobody knows.
        reason: Why they are gone.
    """
    where = "all partitions" if partition is None else f"partition {partition}"
    count = "an unknown number of" if lost is None else str(lost)
    detail = f"{count} events of {event_type!r}, {where}, can no longer be read: {reason}"
    if fail:
        raise EventsLost(detail, event_type=event_type, partition=partition, lost=lost, reason=reason)
    _log.warning("%s; going on without them (failOnDataLoss=false)", detail)
