from typing import Any, get_args

import pytest

from penstock.errors import Blocked
from penstock.hub.permissions import UNAUTHENTICATED, Caller, Operation, Permissions
from penstock.hub.settings import Settings
from penstock.storage import Store

NAME = "order.placed"
OPERATIONS = get_args(Operation)
BILLING = Caller("billing")


@pytest.fixture
def settings(store: Store) -> Settings:
    return Settings(store, lambda: None)


@pytest.fixture
def permissions(settings: Settings) -> Permissions:
    return Permissions(settings)


def refused(permissions: Permissions, caller: Caller = UNAUTHENTICATED, event_type: str | None = NAME) -> set[str]:
    """Return what *caller* may not do."""
    found = set()
    for operation in OPERATIONS:
        try:
            permissions.check(caller, operation, event_type)
        except Blocked:
            found.add(operation)
    return found


def test_everybody_may_do_everything(permissions: Permissions) -> None:
    assert refused(permissions) == refused(permissions, BILLING) == refused(permissions, event_type=None) == set()


@pytest.mark.parametrize(("kind", "operation"), [("CONSUMER_ET", "read"), ("PRODUCER_ET", "write")])
def test_a_blocked_event_type_is_closed_to_all_in_one_way(
    permissions: Permissions, settings: Settings, kind: Any, operation: str
) -> None:
    settings.block(kind, NAME)

    assert refused(permissions) == refused(permissions, BILLING) == {operation}
    assert refused(permissions, event_type="order.sent") == refused(permissions, event_type=None) == set()

    settings.unblock(kind, NAME)
    assert refused(permissions) == set()


@pytest.mark.parametrize(("kind", "operation"), [("CONSUMER_APP", "read"), ("PRODUCER_APP", "write")])
def test_a_blocked_application_is_shut_out_of_all_in_one_way(
    permissions: Permissions, settings: Settings, kind: Any, operation: str
) -> None:
    settings.block(kind, "billing")

    assert refused(permissions, BILLING) == refused(permissions, BILLING, "order.sent") == {operation}
    assert refused(permissions) == set()


def test_the_name_of_an_application_blocks_no_event_type_and_the_other_way_round(
    permissions: Permissions, settings: Settings
) -> None:
    settings.block("CONSUMER_APP", NAME)
    settings.block("CONSUMER_ET", "billing")

    assert refused(permissions, BILLING) == set()


def test_who_is_not_asked_who_it_is_can_be_blocked_by_what_it_is_called(
    permissions: Permissions, settings: Settings
) -> None:
    settings.block("CONSUMER_APP", "unauthenticated")

    assert refused(permissions) == {"read"}


def test_who_is_blocked_is_told_in_nakadis_words(permissions: Permissions, settings: Settings) -> None:
    settings.block("CONSUMER_ET", NAME)

    with pytest.raises(Blocked) as told:
        permissions.check(BILLING, "read", NAME)

    assert told.value.detail == "Application or event type is blocked"
    assert told.value.fields == {"event_type": NAME, "application": "billing"}
