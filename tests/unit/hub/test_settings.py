import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.errors import BadParameter, ChangesSwitchedOff, DatabaseUnavailable, InvalidSetting, OutcomeUnknown
from penstock.hub.settings import BLOCK_KINDS, FEATURES, KEPT_S_MAX, LOOK_S, Attribute, Picture, Settings
from penstock.storage import Store, open_store
from penstock.storage.store import Setting
from tests.unit.hub.forwarding import ForwardingStore

ADA, BOB = {"data_type": "user", "value": "ada"}, {"data_type": "service", "value": "bob"}
LISTS = {"admins": [ADA, BOB], "readers": [ADA], "writers": [BOB]}


class Watching:
    """The time as the settings see it, and who is told when they change."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.changes = 0

    def __call__(self) -> float:
        return self.seconds

    def note(self) -> None:
        self.changes += 1


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def settings(forwarding: ForwardingStore, watching: Watching) -> Settings:
    """Settings that were not started: they look when they are asked."""
    return Settings(forwarding, watching.note, watching)


@pytest.fixture
def elsewhere(store: Store) -> Iterator[Settings]:
    """The settings of another process."""
    other = open_store(store.url)
    yield Settings(other, lambda: None)
    other.close()


def unavailable(_: int) -> None:
    raise DatabaseUnavailable(reason="it is away", retry_after=1)


def test_a_new_hub_has_nobody_named_nothing_blocked_and_no_feature_on(settings: Settings) -> None:
    assert settings.now() == Picture({"admins": (), "readers": (), "writers": ()}, frozenset(), frozenset())


@pytest.mark.parametrize("kind", BLOCK_KINDS)
def test_what_is_blocked_is_blocked_alone_until_that_is_lifted(settings: Settings, kind: Any) -> None:
    settings.block(kind, "order.placed")
    settings.block(kind, "order.placed")

    assert {each for each in BLOCK_KINDS if settings.is_blocked(each, "order.placed")} == {kind}  # type: ignore[arg-type]
    assert not settings.is_blocked(kind, "order.sent")

    settings.unblock(kind, "order.placed")
    settings.unblock(kind, "order.placed")
    assert settings.now().blocked == frozenset()


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_on_alone_until_it_is_switched_off(settings: Settings, feature: Any) -> None:
    settings.switch(feature, on=True)
    assert {each for each in FEATURES if settings.is_on(each)} == {feature}  # type: ignore[arg-type]

    settings.switch(feature, on=False)
    assert settings.now().features == frozenset()


def test_who_administers_is_kept_in_order_and_once(settings: Settings) -> None:
    settings.administer(LISTS | {"readers": [BOB, ADA, BOB]})

    assert settings.now().administration == {
        "admins": (Attribute("user", "ada"), Attribute("service", "bob")),
        "readers": (Attribute("service", "bob"), Attribute("user", "ada")),
        "writers": (Attribute("service", "bob"),),
    }
    settings.administer(LISTS)
    assert settings.now().administration["readers"] == (Attribute("user", "ada"),)


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({"admins": [ADA], "readers": [ADA]}, "writers", "must name at least one"),
        (LISTS | {"writers": []}, "writers", "must name at least one"),
        (LISTS | {"admins": None}, "admins", "must name at least one"),
        (LISTS | {"readers": [ADA, {"data_type": "user"}]}, "readers[1].value", "may not be null"),
        (LISTS | {"readers": [{"data_type": None, "value": "x"}]}, "readers[0].data_type", "may not be null"),
    ],
)
def test_lists_that_leave_something_out_are_refused_naming_it(
    settings: Settings, forwarding: ForwardingStore, given: Any, field: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting) as told:
        settings.administer(given)

    assert told.value.fields["field"] == field
    assert reason in told.value.fields["reason"]
    assert forwarding.writes == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], 'Field "" must be an object of admins, readers, writers, not []'),
        (None, 'Field "" is missing; it must be an object of admins, readers, writers'),
        (LISTS | {"admins": "ada"}, 'Field "admins" must be a list, not "ada"'),
        (LISTS | {"admins": [ADA, 7]}, 'Field "admins[1]" must be of the form'),
        (LISTS | {"writers": [ADA | {"value": 7}]}, 'Field "writers[0].value" must be a text, not 7'),
        (LISTS | {"writers": [ADA | {"value": "\0"}]}, 'Field "writers[0].value" must be a text'),
    ],
)
def test_lists_of_another_type_are_another_mistake(settings: Settings, given: Any, says: str) -> None:
    with pytest.raises(BadParameter) as told:
        settings.administer(given)

    assert told.value.detail.startswith(says)


@pytest.mark.parametrize(
    ("kind", "name", "parameter"),
    [
        ("PRODUCER", "a", "type"),
        ("producer_app", "a", "type"),
        ("PRODUCER_APP", "", "name"),
        ("PRODUCER_APP", "a\0", "name"),
        ("PRODUCER_APP", "a\udcff", "name"),
        ("PRODUCER_APP", "a" * 256, "name"),
    ],
)
def test_what_cannot_be_blocked_is_refused_both_ways(settings: Settings, kind: str, name: str, parameter: str) -> None:
    for change in (settings.block, settings.unblock):
        with pytest.raises(BadParameter) as told:
            change(kind, name)
        assert told.value.fields["parameter"] == parameter


def test_an_unknown_feature_is_refused_naming_those_that_there_are(settings: Settings) -> None:
    with pytest.raises(BadParameter) as told:
        settings.switch("remote_tokeninfo", on=True)

    assert told.value.fields["allowed"] == ", ".join(FEATURES)


def test_while_changes_are_switched_off_features_can_still_be_switched(settings: Settings) -> None:
    settings.block("PRODUCER_ET", "a")
    settings.check_changes()

    settings.switch("disable_db_write_operations", on=True)

    for change in (
        settings.check_changes,
        lambda: settings.block("PRODUCER_ET", "b"),
        lambda: settings.unblock("PRODUCER_ET", "a"),
        lambda: settings.administer(LISTS),
    ):
        with pytest.raises(ChangesSwitchedOff) as told:
            change()
        assert told.value.fields["retry_after"] > 0
    assert settings.now().blocked == {("PRODUCER_ET", "a")}

    settings.switch("disable_db_write_operations", on=False)
    settings.unblock("PRODUCER_ET", "a")


def test_asking_again_soon_costs_no_query(
    settings: Settings, forwarding: ForwardingStore, watching: Watching, elsewhere: Settings
) -> None:
    settings.now()
    elsewhere.block("CONSUMER_ET", "a")
    watching.seconds += LOOK_S
    for _ in range(1000):
        assert not settings.is_blocked("CONSUMER_ET", "a")
    assert forwarding.reads == 1

    watching.seconds += 0.001
    assert settings.is_blocked("CONSUMER_ET", "a")
    assert (forwarding.reads, watching.changes) == (2, 1)


def test_ones_own_change_holds_at_once_and_is_told(settings: Settings, watching: Watching) -> None:
    settings.now()

    settings.block("CONSUMER_ET", "a")

    assert settings.is_blocked("CONSUMER_ET", "a")
    assert watching.changes == 1
    settings.block("CONSUMER_ET", "a")
    assert watching.changes == 1, "nothing has changed"


def test_a_look_that_began_before_a_change_does_not_undo_it(
    settings: Settings, forwarding: ForwardingStore, watching: Watching
) -> None:
    """It holds up the look that follows the change, which then finds the change."""
    settings.now()
    reached, go_on = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        if number == 2:
            reached.set()
            assert go_on.wait(300)

    forwarding.at_read = hold
    watching.seconds += 1
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(settings.now)
        assert reached.wait(300)
        change = threads.submit(settings.switch, "disable_event_type_creation", on=True)
        go_on.set()
        slow.result(timeout=300)
        change.result(timeout=300)

    assert settings.is_on("disable_event_type_creation")


def test_while_the_database_is_away_the_last_picture_holds_for_a_while(
    settings: Settings, forwarding: ForwardingStore, watching: Watching
) -> None:
    settings.block("CONSUMER_ET", "a")
    settings.now()
    forwarding.at_read = unavailable

    watching.seconds += KEPT_S_MAX
    assert settings.is_blocked("CONSUMER_ET", "a")

    watching.seconds += 1
    with pytest.raises(DatabaseUnavailable):
        settings.now()

    forwarding.at_read = lambda _: None
    watching.seconds += 1
    assert settings.is_blocked("CONSUMER_ET", "a")


def test_a_hub_that_has_never_seen_its_settings_lets_nobody_pass(
    settings: Settings, forwarding: ForwardingStore
) -> None:
    forwarding.at_read = unavailable
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            settings.now()
    with pytest.raises(DatabaseUnavailable):
        settings.start()


def test_a_change_whose_commit_is_in_doubt_can_be_tried_again(settings: Settings, forwarding: ForwardingStore) -> None:
    def in_doubt(_: int) -> None:
        raise OutcomeUnknown(reason="the connection broke")

    forwarding.at_write = in_doubt
    with pytest.raises(DatabaseUnavailable) as told:
        settings.block("CONSUMER_ET", "a")

    assert told.value.fields == {"reason": "the connection broke", "retry_after": 1}


def test_what_only_another_version_knows_is_passed_over(settings: Settings, store: Store) -> None:
    with store.write() as tx:
        for each in (Setting("feature", "of_tomorrow", "on"), Setting("NOBODY", "x", "on")):
            tx.settings.put(*each)

    assert settings.now().features | settings.now().blocked == frozenset()


def test_settings_that_were_started_ask_nothing_when_they_are_asked(
    settings: Settings, forwarding: ForwardingStore, watching: Watching, elsewhere: Settings
) -> None:
    settings.start()
    settings.start()
    reads = forwarding.reads
    elsewhere.block("PRODUCER_APP", "billing")
    watching.seconds += KEPT_S_MAX

    assert not settings.is_blocked("PRODUCER_APP", "billing")
    assert forwarding.reads == reads

    settings.look()
    assert settings.is_blocked("PRODUCER_APP", "billing")
    assert (forwarding.reads, watching.changes) == (reads + 1, 1)
    settings.look()
    assert watching.changes == 1, "nothing has changed"


def test_what_was_seen_holds_where_a_look_fails(settings: Settings, forwarding: ForwardingStore) -> None:
    settings.start()
    settings.block("PRODUCER_APP", "billing")
    forwarding.at_read = unavailable

    with pytest.raises(DatabaseUnavailable):
        settings.look()
    assert settings.is_blocked("PRODUCER_APP", "billing")
