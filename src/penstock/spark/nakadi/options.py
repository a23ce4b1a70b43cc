"""The options of format("nakadi"): Spark's strings in, one frozen value out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.spark.options import (
    bad_option,
    event_types_of,
    flag_of,
    hub_url,
    known_options,
    one_of,
    seconds_of,
    shown_location,
    token_file,
    whole_number,
    whole_seconds,
)

NAMES: Final = (
    "url",
    "subscription",
    "owningApplication",
    "eventType",
    "consumerGroup",
    "readFrom",
    "landingLocation",
    "maxEventsPerTrigger",
    "batchLimit",
    "commitTimeout",
    "tokenFile",
    "failOnDataLoss",
    "retryTimeout",
)
_OF_DEFINITION: Final = ("owningApplication", "eventType", "consumerGroup", "readFrom")
_SUBSCRIPTION: Final = "the id of a subscription; or owningApplication and eventType, by which one is found or created"
_LOCATION: Final = "a directory that the driver and all executors can reach, such as s3://lake/landing"


@dataclass(frozen=True, kw_only=True)
class WantedSubscription:
    """What a subscription is found by, and what is created where there is none."""

    owning_application: str
    event_types: tuple[str, ...]
    consumer_group: str = "default"
    read_from: str = "begin"
    """Where one that is created begins: begin or end."""

    def members(self) -> dict[str, Any]:
        """Return it as Nakadi takes it."""
        return {
            "owning_application": self.owning_application,
            "event_types": list(self.event_types),
            "consumer_group": self.consumer_group,
            "read_from": self.read_from,
        }


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions:
    """What a query wants to read, and how."""

    url: str
    """Of the server, without a slash at the end."""
    subscription: str | WantedSubscription
    """Its id, or what it is found by."""
    landing_location: str
    """In which directory batches are landed."""
    max_events_per_trigger: int = 100_000
    """The most that a micro-batch takes."""
    batch_limit: int = 500
    """The most events that Nakadi sends as one batch."""
    commit_timeout: int = 60
    """So many seconds after the last commit Nakadi ends a stream of which anything is uncommitted."""
    authorization_file: str | None = None
    """Where the driver reads the bearer token of each request."""
    fail_on_data_loss: bool = True
    """Whether events that are gone before they were read end the query."""
    retry_timeout: float = 120.0
    """How long the driver waits for a server that does not answer, or for room for its stream; 0: not at all."""


def parse_subscription_options(given: Mapping[str, str]) -> SubscriptionOptions:
    """Read the options of a query; their names may be in any case.

    Raises:
        BadParameter: one is missing, unknown or wrong; names it, what was given and what is allowed.
    """
    values = known_options(given, NAMES)
    chosen: dict[str, Any] = {}
    for name, attribute, parse in _PARSERS:
        if name in values:
            chosen[attribute] = parse(name, values[name])
    options = SubscriptionOptions(
        url=hub_url(values, "the address of a Nakadi server"),
        subscription=_subscription(values),
        landing_location=_location(values.get("landingLocation")),
        **chosen,
    )
    most = options.max_events_per_trigger
    if options.batch_limit > most:
        raise bad_option("batchLimit", options.batch_limit, f"up to {most}, which is maxEventsPerTrigger")
    return options


def _subscription(values: Mapping[str, str]) -> str | WantedSubscription:
    defined = [name for name in _OF_DEFINITION if name in values]
    if not defined:
        known = _named("subscription", values.get("subscription"), _SUBSCRIPTION)
        if "/" in known or known in (".", ".."):
            raise bad_option("subscription", known, _SUBSCRIPTION)
        return known
    if "subscription" in values:
        raise bad_option(defined[0], values[defined[0]], "without subscription, which says all of it")
    return WantedSubscription(
        owning_application=_named(
            "owningApplication", values.get("owningApplication"), "the application that owns the subscription"
        ),
        event_types=event_types_of(values),
        consumer_group=_named(
            "consumerGroup", values.get("consumerGroup", "default"), "the consumer group of the subscription"
        ),
        read_from=one_of("readFrom", values.get("readFrom", "begin"), {"begin": "begin", "end": "end"}),
    )


def _location(text: str | None) -> str:
    location = _named("landingLocation", text, _LOCATION)
    if ":/" not in location and not location.startswith("/"):
        raise bad_option("landingLocation", shown_location(location), f"{_LOCATION}, or a whole path on this machine")
    return location


def _named(name: str, text: str | None, allowed: str) -> str:
    if text is None or not text.strip():
        raise bad_option(name, text, allowed)
    return text.strip()


_PARSERS: Final = (
    ("maxEventsPerTrigger", "max_events_per_trigger", whole_number),
    ("batchLimit", "batch_limit", whole_number),
    ("commitTimeout", "commit_timeout", whole_seconds),
    ("tokenFile", "authorization_file", token_file),
    ("failOnDataLoss", "fail_on_data_loss", flag_of),
    ("retryTimeout", "retry_timeout", seconds_of),
)
