"""Settings of a running hub: who administers it, which callers are blocked, which features are on."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.core.access import Attribute
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    HubUnavailable,
    InvalidSetting,
)
from penstock.hub.admin.settings import (
    BLOCK_KINDS,
    FEATURES,
    KEPT_SECONDS_MAX,
    REFRESH_INTERVAL,
    Settings,
    SettingsSnapshot,
)
from penstock.storage import Store, open_store
from penstock.storage.admin import Setting
from tests.failing import has_code
from tests.unit.hub.forwarding import ForwardingStore, fail

ADA, BOB = {"data_type": "user", "value": "ada"}, {"data_type": "service", "value": "bob"}
LISTS = {"admins": [ADA, BOB], "readers": [ADA], "writers": [BOB]}
NAME = "order.placed"


class Watching:
    """The clock of the settings, and the watch that hears of their changes."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.changes = 0

    def __call__(self) -> float:
        return self.seconds

    def note(self) -> None:
        self.changes += 1


def is_blocked(settings: Settings, kind: str, name: str) -> bool:
    return (kind, name) in settings.current().blocked


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


def test_new_hub_has_no_administrators_blocks_or_features(settings: Settings) -> None:
    assert settings.current() == SettingsSnapshot(
        {"admins": (), "readers": (), "writers": ()}, frozenset(), frozenset(), ""
    )


@pytest.mark.parametrize("kind", BLOCK_KINDS)
def test_block_concerns_one_kind_and_name_until_it_is_lifted(settings: Settings, kind: Any) -> None:
    for _ in range(2):
        settings.block(kind, NAME)

    assert {each for each in BLOCK_KINDS if is_blocked(settings, each, NAME)} == {kind}  # type: ignore[arg-type]
    assert not is_blocked(settings, kind, "order.sent")

    for _ in range(2):
        settings.unblock(kind, NAME)
    assert settings.current().blocked == frozenset()


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_is_on_alone_until_it_is_switched_off(settings: Settings, feature: Any) -> None:
    settings.switch(feature, on=True)
    assert {each for each in FEATURES if settings.is_on(each)} == {feature}  # type: ignore[arg-type]

    settings.switch(feature, on=False)
    assert settings.current().features == frozenset()


def test_administrators_are_kept_in_order_and_once(settings: Settings) -> None:
    settings.replace_administrators(LISTS | {"readers": [BOB, ADA, BOB]})

    assert settings.current().administration == {
        "admins": (Attribute("user", "ada"), Attribute("service", "bob")),
        "readers": (Attribute("service", "bob"), Attribute("user", "ada")),
        "writers": (Attribute("service", "bob"),),
    }
    settings.replace_administrators(LISTS)
    assert settings.current().administration["readers"] == (Attribute("user", "ada"),)


@pytest.mark.parametrize(
    ("lists", "field", "reason"),
    [
        ({"admins": [ADA], "readers": [ADA]}, "writers", "must name at least one"),
        (LISTS | {"writers": []}, "writers", "must name at least one"),
        (LISTS | {"admins": None}, "admins", "must name at least one"),
        (LISTS | {"readers": [ADA, {"data_type": "user"}]}, "readers[1].value", "may not be null"),
        (LISTS | {"readers": [{"data_type": None, "value": "x"}]}, "readers[0].data_type", "may not be null"),
    ],
)
def test_incomplete_lists_of_administrators_are_refused_by_field(
    settings: Settings, forwarding: ForwardingStore, lists: Any, field: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        settings.replace_administrators(lists)

    assert refused.value.field == field
    assert reason in refused.value.reason
    assert forwarding.writes == 0


@pytest.mark.parametrize(
    ("lists", "detail"),
    [
        ([], 'Field "" must be an object of admins, readers, writers, not []'),
        (None, 'Field "" is missing; it must be an object of admins, readers, writers'),
        (LISTS | {"admins": "ada"}, 'Field "admins" must be a list, not "ada"'),
        (LISTS | {"admins": [ADA, 7]}, 'Field "admins[1]" must be of the form'),
        (LISTS | {"writers": [ADA | {"value": 7}]}, 'Field "writers[0].value" must be a text, not 7'),
        (LISTS | {"writers": [ADA | {"value": "\0"}]}, 'Field "writers[0].value" must be a text'),
    ],
)
def test_malformed_lists_of_administrators_are_refused(settings: Settings, lists: Any, detail: str) -> None:
    with pytest.raises(BadParameter) as refused:
        settings.replace_administrators(lists)

    assert refused.value.detail.startswith(detail)


@pytest.mark.parametrize(
    ("kind", "name", "parameter"),
    [
        ("PRODUCER", "a", "type"),
        ("producer_app", "a", "type"),
        *[("PRODUCER_APP", name, "name") for name in ("", "a\0", "a\udcff", "a" * 256)],
    ],
)
def test_impossible_block_is_refused_by_its_parameter(settings: Settings, kind: str, name: str, parameter: str) -> None:
    for change in (settings.block, settings.unblock):
        with pytest.raises(BadParameter) as refused:
            change(kind, name)
        assert refused.value.parameter == parameter


def test_unknown_feature_is_refused_with_the_known_ones(settings: Settings) -> None:
    with pytest.raises(BadParameter) as refused:
        settings.switch("remote_tokeninfo", on=True)

    assert refused.value.allowed == ", ".join(FEATURES)


def test_only_features_can_be_switched_while_changes_are_switched_off(settings: Settings) -> None:
    settings.block("PRODUCER_ET", "a")
    settings.check_changes()

    settings.switch("disable_db_write_operations", on=True)

    for change in (
        settings.check_changes,
        lambda: settings.block("PRODUCER_ET", "b"),
        lambda: settings.unblock("PRODUCER_ET", "a"),
        lambda: settings.replace_administrators(LISTS),
    ):
        with pytest.raises(HubUnavailable, check=has_code("changes-switched-off")) as refused:
            change()
        assert refused.value.retry_after > 0
    assert settings.current().blocked == {("PRODUCER_ET", "a")}

    settings.switch("disable_db_write_operations", on=False)
    settings.unblock("PRODUCER_ET", "a")


# Looking them up


def test_settings_are_looked_up_once_in_a_while(
    settings: Settings, forwarding: ForwardingStore, watching: Watching, elsewhere: Settings
) -> None:
    settings.current()
    elsewhere.block("CONSUMER_ET", "a")
    watching.seconds += REFRESH_INTERVAL
    for _ in range(9):
        assert not is_blocked(settings, "CONSUMER_ET", "a")
    assert forwarding.reads == 1

    watching.seconds += 0.001
    assert is_blocked(settings, "CONSUMER_ET", "a")
    assert (forwarding.reads, watching.changes) == (2, 1)


def test_own_change_holds_at_once_and_readers_are_woken(settings: Settings, watching: Watching) -> None:
    settings.current()

    for _ in range(2):  # The second one changes nothing.
        settings.block("CONSUMER_ET", "a")
        assert is_blocked(settings, "CONSUMER_ET", "a")
        assert watching.changes == 1


def test_look_that_began_before_a_change_does_not_undo_it(
    settings: Settings, forwarding: ForwardingStore, watching: Watching
) -> None:
    """It delays the look that follows the change, which then finds the change."""
    settings.current()
    reached, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == 2:
            reached.set()
            assert go_on.wait(300)

    forwarding.at_read = wait
    watching.seconds += 1
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(settings.current)
        assert reached.wait(300)
        change = threads.submit(settings.switch, "disable_event_type_creation", on=True)
        go_on.set()
        slow.result(timeout=300)
        change.result(timeout=300)

    assert settings.is_on("disable_event_type_creation")


def test_last_settings_hold_for_a_while_without_the_database(
    settings: Settings, forwarding: ForwardingStore, watching: Watching
) -> None:
    settings.block("CONSUMER_ET", "a")
    settings.current()
    forwarding.at_read = fail

    watching.seconds += KEPT_SECONDS_MAX
    assert is_blocked(settings, "CONSUMER_ET", "a")

    watching.seconds += 1
    with pytest.raises(DatabaseUnavailable):
        settings.current()

    forwarding.at_read = lambda _: None
    watching.seconds += 1
    assert is_blocked(settings, "CONSUMER_ET", "a")


def test_hub_that_has_never_seen_its_settings_lets_no_request_pass(
    settings: Settings, forwarding: ForwardingStore
) -> None:
    forwarding.at_read = fail
    for look in (settings.current, settings.current, settings.start):
        with pytest.raises(DatabaseUnavailable):
            look()


def test_settings_of_another_version_are_ignored(settings: Settings, store: Store) -> None:
    with store.write() as tx:
        for each in (Setting("feature", "of_tomorrow", "on"), Setting("NOBODY", "x", "on")):
            tx.settings.put(*each)

    assert settings.current().features | settings.current().blocked == frozenset()


def test_started_settings_are_looked_up_by_the_watch_alone(
    settings: Settings, forwarding: ForwardingStore, watching: Watching, elsewhere: Settings
) -> None:
    for _ in range(2):
        settings.start()
    reads = forwarding.reads
    elsewhere.block("PRODUCER_APP", "billing")
    watching.seconds += KEPT_SECONDS_MAX

    assert not is_blocked(settings, "PRODUCER_APP", "billing")
    assert forwarding.reads == reads

    settings.refresh()
    assert is_blocked(settings, "PRODUCER_APP", "billing")
    assert (forwarding.reads, watching.changes) == (reads + 1, 1)
    settings.refresh()
    assert watching.changes == 1
    forwarding.at_read = fail
    with pytest.raises(DatabaseUnavailable):
        settings.refresh()
    assert is_blocked(settings, "PRODUCER_APP", "billing")
