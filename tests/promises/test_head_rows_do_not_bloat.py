"""A head row updated with each append would leave a dead row each time, as long as any transaction is open."""

from typing import Any

from tests.promises.scene import NAME, commit_to_outbox, event, hub_on, rows_of


def test_appends_lock_the_head_rows_and_write_none(postgres_url: str) -> None:
    with hub_on(postgres_url, partitions=3) as hub, hub_on(postgres_url) as other:
        before = _versions(postgres_url)
        for n in range(100):
            (hub, other)[n % 2].publish(NAME, [event({"n": n}, n % 3)])
            if n % 10 == 0:
                commit_to_outbox(postgres_url, {"n": n})

        assert _versions(postgres_url) == before
    assert rows_of(postgres_url, "SELECT count(*) FROM penstock_event")[0][0] == 110
    updated = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'penstock_partition'"
    assert rows_of(postgres_url, updated) == [(0, 0)]


def _versions(url: str) -> list[Any]:
    """Tell which version of each row there is: an update would make another one."""
    tables = ("penstock_partition", "penstock_event_type")
    return [rows_of(url, f"SELECT id, ctid::text, xmin::text FROM {table} ORDER BY id") for table in tables]
