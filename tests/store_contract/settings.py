"""The contract of settings: `penstock.storage.admin.SettingRepository`."""

from collections.abc import Sequence
from functools import partial

from penstock.storage import Store
from penstock.storage.admin import Setting
from tests.store_contract.database import Contract, together

AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰 \n'
ROUNDS = 40


class SettingsContract(Contract):
    """A setting is kept by kind and name, and the last one put holds."""

    def test_last_value_of_each_kind_and_name_is_listed_sorted_until_it_is_deleted(self, store: Store) -> None:
        assert _all(store) == []
        given = [
            ("b", "x", "1"),
            ("B", "y", "2"),
            ("a", "x-y", "3"),
            ("a", "x.y", "4"),
            ("a", "x", ""),
            ("a", "X", "6"),
        ]
        awkward = Setting(AWKWARD, AWKWARD, AWKWARD)
        _put(store, *given, awkward)
        assert _all(store) == sorted(Setting(*each) for each in [*given, awkward])

        _put(store, ("a", "x", "on"))
        for _ in range(2):  # To delete it again does no harm.
            _put(store, ("b", "x", None), (AWKWARD, AWKWARD, None))
            assert _all(store) == sorted(Setting(*each) for each in [*given[1:4], ("a", "x", "on"), given[5]])


class SettingsTogether(Contract):
    """Settings where several transactions write at once."""

    def test_concurrent_writers_of_the_same_settings_never_mix(self, store: Store, other: Store) -> None:
        """Each puts all of its own, and now and then takes another away: what is found at the end is one writer's."""
        names = [str(number) for number in range(5)]

        def change(who: int) -> None:
            mine = (store, other)[who % 2]
            for turn in range(ROUNDS):
                with mine.write() as tx:
                    for name in names:
                        tx.settings.put("a", name, str(who))
                    if (turn + who) % 3:
                        tx.settings.put("b", "x", str(who))
                    else:
                        tx.settings.put("b", "x", None)

        together(*(partial(change, who) for who in range(4)))

        found = [each for each in _all(store) if each.kind == "a"]
        assert [each.name for each in found] == names
        assert len({each.value for each in found}) == 1


def _put(store: Store, *settings: tuple[str, str, str | None]) -> None:
    with store.write() as tx:
        for each in settings:
            tx.settings.put(*each)


def _all(store: Store) -> Sequence[Setting]:
    with store.read() as tx:
        return tx.settings.list()
