"""SQLite's files have no byte of erased events."""

from pathlib import Path

from penstock.hub.hub import Hub
from penstock.storage.store import Store
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, create_feed

KEY, SECRET, LARGE = "jane", "Jane's street", "x" * 20_000


def test_no_byte_of_erased_events_is_left_in_the_files(store: Store) -> None:
    create_feed(store)
    hub = Hub(store)
    secret = a_new_event({"of": SECRET, "large": LARGE}, key=KEY, partition=0)
    hub.log.publish(NAME, [secret, a_new_event({}, key="a", partition=0)])
    path = Path(store.url.removeprefix("sqlite:///"))
    files = [path, path.with_name(f"{path.name}-wal")]
    assert any(SECRET.encode() in file.read_bytes() for file in files)
    hub.erasures.request(NAME, KEY)

    hub.erasures.run()

    for content in [file.read_bytes() for file in files]:
        assert SECRET.encode() not in content
        assert LARGE[:3_000].encode() not in content
        assert KEY.encode() not in content
    hub.stop()
