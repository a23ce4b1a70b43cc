"""The options with which format("penstock") is written: Spark's strings in, one frozen value out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.errors import BadParameter
from penstock.spark.authorization import ANONYMOUS, Credential
from penstock.spark.options import bad_option, credential_of, hub_url, one_of, seconds_of, select_options
from penstock.wire.producers import NUMBER_MAX, check_group

SINK_NAMES: Final = (
    "url",
    "eventType",
    "producerGroup",
    "batchId",
    "onInvalid",
    "retryTimeout",
    "token",
    "tokenFile",
)
OF_STREAMS: Final = frozenset(["checkpointlocation", "queryname"])
"""Options that Spark passes on and that are not ours."""
SINK_ONLY: Final = frozenset(["producergroup", "batchid", "oninvalid"]) | OF_STREAMS
"""Options, in lower case, that only writing queries have."""

OnInvalid: TypeAlias = Literal["fail", "reject"]
_ON_INVALID: Final[Mapping[str, OnInvalid]] = {"fail": "fail", "reject": "reject"}


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Where a query publishes, and how."""

    url: str
    """Of the hub, without a slash at the end."""
    event_type: str
    producer_group: str | None = None
    """As whom; None: `spark.` and the query's id."""
    batch_id: int | None = None
    """Which batch of the group a batch write is; None: the only one of a group of its own. A stream's have numbers."""
    on_invalid: OnInvalid = "fail"
    """The treatment of rows that are no valid events: they fail the query, or are kept among the rejected."""
    retry_timeout: float = 120.0
    """How long a request is tried again, for a hub that cannot be reached; 0: not at all."""
    credential: Credential = ANONYMOUS
    """The token that the hub is sent."""


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a query that publishes. Names are case-insensitive.

    Raises:
        BadParameter: one is missing, unknown or wrong; the error has its name, its value and the allowed values.
    """
    ours = {name: value for name, value in given.items() if name.lower() not in OF_STREAMS}
    values = select_options(ours, SINK_NAMES)
    event_type = values.get("eventType", "").strip()
    if not event_type or "," in event_type:
        raise bad_option("eventType", values.get("eventType"), "the name of one event type")
    group, batch_id = _group(values.get("producerGroup")), _batch_id(values.get("batchId"))
    if batch_id is not None and group is None:
        raise bad_option("batchId", batch_id, "beside producerGroup, whose batch it is")
    on_invalid = one_of("onInvalid", values.get("onInvalid", "fail"), _ON_INVALID)
    return SinkOptions(
        url=hub_url(values),
        event_type=event_type,
        producer_group=group,
        batch_id=batch_id,
        on_invalid=on_invalid,
        retry_timeout=seconds_of("retryTimeout", values["retryTimeout"]) if "retryTimeout" in values else 120.0,
        credential=credential_of(values),
    )


def _group(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return check_group(text)
    except BadParameter as error:
        raise bad_option("producerGroup", text[:80], error.allowed or "another name") from None


def _batch_id(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,16}", text.strip(), re.ASCII) or int(text) > NUMBER_MAX:
        raise bad_option(
            "batchId", text, f"a whole number from 0 to {NUMBER_MAX}, larger than that of the batch before"
        )
    return int(text)
