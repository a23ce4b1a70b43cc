"""The hub's own event types: the audit log, the logs of event types and subscriptions, and those of what callers do."""

from typing import Any

import pytest

from tests.conformance.nakadi.hubs import switch
from tests.nakadi import EventType, Nakadi

pytestmark = pytest.mark.usefixtures("restored")
ACCESS_LOG = "nakadi.access.log"
AUDIT_LOG, EVENT_TYPE_LOG, SUBSCRIPTION_LOG = "nakadi.audit.log", "nakadi.event.type.log", "nakadi.subscription.log"


def begin(nakadi: Nakadi, name: str, feature: str) -> tuple[EventType, list[dict[str, str]]]:
    """Switch a feature on, and return the log that it has, and where that ends now."""
    switch(nakadi, feature)
    log = EventType(nakadi.http, name)
    partitions = log.get("/partitions").json()
    return log, [{"partition": each["partition"], "offset": each["newest_available_offset"]} for each in partitions]


def read_next(log: EventType, cursors: list[dict[str, str]]) -> dict[str, Any]:
    """Return the first event of *log* behind *cursors*."""
    lines = log.lines(cursors, batch_limit=1, stream_limit=1, batch_flush_timeout=5, stream_timeout=5)
    [event] = [event for line in lines for event in line.events or []]
    found: dict[str, Any] = event
    return found


def test_audit_log_exists_and_is_the_hubs_own(nakadi: Nakadi) -> None:
    """AuditLogAT.testAuditLogEventTypeIsCreated; the owner is the hub, as Nakadi's is `stups_nakadi`."""
    log, _ = begin(nakadi, AUDIT_LOG, "audit_log_collection")

    shown = log.shown()
    assert (shown["name"], shown["owning_application"], shown["category"]) == (AUDIT_LOG, "penstock", "business")


def test_creation_of_an_event_type_is_in_the_audit_log(nakadi: Nakadi) -> None:
    """AuditLogAT.testAuditLogEventIsSent."""
    log, end = begin(nakadi, AUDIT_LOG, "audit_log_collection")
    created = nakadi.create()

    event = read_next(log, end)
    assert (event["resource_type"], event["resource_id"]) == ("event_type", created.name)
    assert (event["action"], event["user"]) == ("created", "unauthenticated")
    assert event["new_object"]["name"] == created.name
    assert event["metadata"]["event_type"] == AUDIT_LOG


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        (EVENT_TYPE_LOG, "kpi_collection"),
        (SUBSCRIPTION_LOG, "kpi_collection"),
        ("nakadi.batch.published", "kpi_collection"),
        ("nakadi.data.streamed", "kpi_collection"),
        (ACCESS_LOG, "access_log_enabled"),
    ],
)
def test_logs_of_indicators_exist_once_they_are_collected(nakadi: Nakadi, name: str, feature: str) -> None:
    """NakadiKpiInitializationAT.testKpiEventTypesCreatedOnApplicationLaunch; the access log has its own feature."""
    log, _ = begin(nakadi, name, feature)
    assert log.get().status_code == 200


def test_request_is_in_the_access_log(nakadi: Nakadi) -> None:
    """BinaryEventPublisherAT.testNakadiAccessLogInAvro, in JSON; requests about the log itself are not in it."""
    log, end = begin(nakadi, ACCESS_LOG, "access_log_enabled")
    nakadi.create()

    event = read_next(log, end)
    assert event["metadata"]["event_type"] == ACCESS_LOG
    assert event.keys() == {
        "metadata", "method", "path", "query", "user_agent", "app", "app_hashed", "status_code", "response_time_ms",
        "accept_encoding", "content_encoding", "request_length", "response_length",
    }  # fmt: skip


def test_creation_of_an_event_type_is_in_the_event_type_log(nakadi: Nakadi) -> None:
    """BinaryEventPublisherAT.testNakadiEventTypeLogInAvro, in JSON."""
    log, end = begin(nakadi, EVENT_TYPE_LOG, "kpi_collection")
    created = nakadi.create()

    event = read_next(log, end)
    assert (event["event_type"], event["status"], event["authz"]) == (created.name, "created", "disabled")
    assert {"category", "compatibility_mode", "metadata"} <= event.keys()


def test_creation_of_a_subscription_is_in_the_subscription_log(nakadi: Nakadi) -> None:
    """BinaryEventPublisherAT.testNakadiSubscriptionLogInAvro, in JSON."""
    log, end = begin(nakadi, SUBSCRIPTION_LOG, "kpi_collection")
    created = nakadi.create()
    given = {"owning_application": "shop", "event_types": [created.name]}
    subscription = nakadi.http.post("/subscriptions", json=given).json()["id"]

    event = read_next(log, end)
    assert (event["subscription_id"], event["status"]) == (subscription, "created")
