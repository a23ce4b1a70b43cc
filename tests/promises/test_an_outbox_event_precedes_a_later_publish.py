from penstock.hub.outbox import MOVE_ROWS
from tests.promises.scene import NAME, commit_to_outbox, create, event, feed, hub_on, seeded


def test_what_was_committed_before_a_publish_comes_before_it(database_url: str) -> None:
    chance = seeded()
    with hub_on(database_url, partitions=1) as hub, hub_on(database_url) as other:
        wanted = []
        for n in range(40):
            if chance.random() < 0.5:
                commit_to_outbox(database_url, {"n": n}, {"n": n, "second": True})
                wanted += [{"n": n}, {"n": n, "second": True}]
            else:
                chance.choice([hub, other]).publish(NAME, [event({"n": n})])
                wanted += [{"n": n}]

        assert feed(hub) == wanted


def test_more_than_one_transaction_moves_comes_before_it_all_the_same(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        waiting = [{"n": n} for n in range(2 * MOVE_ROWS + 1)]
        commit_to_outbox(database_url, *waiting)

        hub.publish(NAME, [event({"n": "later"})])

        assert feed(hub) == [*waiting, {"n": "later"}]


def test_a_group_moves_the_outbox_of_every_event_type_that_it_touches(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        create(hub, "other.one")
        for n in range(10):
            commit_to_outbox(database_url, {"n": n})
            commit_to_outbox(database_url, {"n": n}, name="other.one")
            both = [hub.submit(name, [event({"n": "after", "than": n})]) for name in (NAME, "other.one")]
            for each in both:
                each.result(300)

        wanted = [each for n in range(10) for each in ({"n": n}, {"n": "after", "than": n})]
        assert feed(hub) == feed(hub, name="other.one") == wanted
