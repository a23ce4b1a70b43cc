"""The contract of what operators have told the hub: `penstock.storage.admin.SettingRepository`."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from penstock.storage import Store
from penstock.storage.admin import Setting
from tests.store_contract.database import Contract

AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰 \n'
ROUNDS = 40


class SettingsContract(Contract):
    """A setting is kept by kind and name, and the last one put holds."""

    def test_a_new_hub_has_been_told_nothing(self, store: Store) -> None:
        assert _all(store) == []

    def test_settings_are_listed_by_kind_and_name(self, store: Store) -> None:
        given = [
            ("b", "x", "1"),
            ("B", "y", "2"),
            ("a", "x-y", "3"),
            ("a", "x.y", "4"),
            ("a", "x", "5"),
            ("a", "X", "6"),
        ]

        _put(store, *given)

        assert _all(store) == sorted(Setting(*each) for each in given)

    def test_the_last_one_put_holds(self, store: Store) -> None:
        _put(store, ("feature", "x", "on"), ("feature", "y", "on"))

        _put(store, ("feature", "x", ""))

        assert _all(store) == [Setting("feature", "x", ""), Setting("feature", "y", "on")]

    def test_any_text_is_kept_as_it_is(self, store: Store) -> None:
        _put(store, (AWKWARD, AWKWARD, AWKWARD))

        assert _all(store) == [Setting(AWKWARD, AWKWARD, AWKWARD)]
        _remove(store, AWKWARD, AWKWARD)
        assert _all(store) == []

    def test_a_removed_setting_is_gone_alone(self, store: Store) -> None:
        _put(store, ("a", "x", "1"), ("a", "y", "2"), ("b", "x", "3"))

        _remove(store, "a", "x")

        assert _all(store) == [Setting("a", "y", "2"), Setting("b", "x", "3")]
        _remove(store, "a", "x")
        assert _all(store) == [Setting("a", "y", "2"), Setting("b", "x", "3")], "to remove it again does no harm"

    def test_an_undone_change_changes_nothing(self, store: Store) -> None:
        _put(store, ("a", "x", "1"), ("a", "y", "2"))

        try:
            with store.write() as tx:
                tx.settings.put("a", "x", "3")
                tx.settings.put("a", "y", None)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

        assert _all(store) == [Setting("a", "x", "1"), Setting("a", "y", "2")]

    def test_another_process_sees_it_at_its_next_look(self, store: Store, other: Store) -> None:
        assert _all(other) == []

        _put(store, ("a", "x", "1"))

        assert _all(other) == [Setting("a", "x", "1")]


class SettingsTogether(Contract):
    """Settings where several transactions write at once."""

    def test_writers_of_the_same_settings_neither_fail_nor_mix(self, store: Store, other: Store) -> None:
        """Each puts all of its own, and now and then takes another away: what is found at the end is one writer's."""
        names = [str(number) for number in range(5)]
        together = Barrier(4)

        def change(who: int) -> None:
            mine = (store, other)[who % 2]
            together.wait()
            for turn in range(ROUNDS):
                with mine.write() as tx:
                    for name in names:
                        tx.settings.put("a", name, str(who))
                    if (turn + who) % 3:
                        tx.settings.put("b", "x", str(who))
                    else:
                        tx.settings.put("b", "x", None)

        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(change, who) for who in range(4)]:
                done.result()

        found = [each for each in _all(store) if each.kind == "a"]
        assert [each.name for each in found] == names
        assert len({each.value for each in found}) == 1


def _put(store: Store, *settings: tuple[str, str, str]) -> None:
    with store.write() as tx:
        for each in settings:
            tx.settings.put(*each)


def _remove(store: Store, kind: str, name: str) -> None:
    with store.write() as tx:
        tx.settings.put(kind, name, None)


def _all(store: Store) -> Sequence[Setting]:
    with store.read() as tx:
        return tx.settings.list()
