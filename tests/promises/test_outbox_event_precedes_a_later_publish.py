"""An event that was committed to the outbox before a publish comes before it in its partition."""

from penstock.hub.hub import Hub
from penstock.hub.log.outbox import MOVE_ROWS
from tests.promises.scene import NAME, commit_to_outbox, create, event, feed, fill_outbox, seeded


def test_outbox_events_and_publishes_have_the_order_of_their_commits(hub: Hub, other: Hub, url: str) -> None:
    chance = seeded()
    expected = []
    for n in range(30):
        if chance.random() < 0.5:
            commit_to_outbox(url, {"n": n}, {"n": n, "second": True})
            expected += [{"n": n}, {"n": n, "second": True}]
        else:
            chance.choice([hub, other]).log.publish(NAME, [event({"n": n})])
            expected += [{"n": n}]

    assert feed(hub) == expected


def test_outbox_precedes_a_publish_though_it_is_moved_in_several_transactions(hub: Hub, url: str) -> None:
    fill_outbox(url, MOVE_ROWS + 1)

    hub.log.publish(NAME, [event({"n": "later"})])

    assert [each["n"] for each in feed(hub)] == [*range(MOVE_ROWS + 1), "later"]


def test_outbox_precedes_publishes_to_several_event_types_in_one_transaction(hub: Hub, url: str) -> None:
    create(hub, "other.one")
    for n in range(5):
        commit_to_outbox(url, {"n": n})
        commit_to_outbox(url, {"n": n}, name="other.one")
        for each in [hub.log.submit(name, [event({"n": "after", "than": n})]) for name in (NAME, "other.one")]:
            each.result(300)

    expected = [each for n in range(5) for each in ({"n": n}, {"n": "after", "than": n})]
    assert feed(hub) == feed(hub, name="other.one") == expected
