"""Subscriptions themselves (5.1 and 5.2): made, shown, changed, dropped."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.nakadi import EventType, Nakadi, problem
from tests.served import as_new
from tests.subscribing import Subscription, at_once, definition, filled, numbered, put, subscribe

JANE = {"data_type": "user", "value": "jane"}
EVERYBODY = {"admins": [JANE], "readers": [JANE]}
MEMBERS = {
    "id",
    "owning_application",
    "event_types",
    "consumer_group",
    "created_at",
    "updated_at",
    "read_from",
    "initial_cursors",
    "authorization",
    "annotations",
    "labels",
}


@pytest.fixture
def restored(nakadi: Nakadi) -> Iterator[None]:
    yield
    as_new(nakadi.http)


def switch_on(nakadi: Nakadi, feature: str) -> None:
    answer = nakadi.http.post("/settings/features", json={"feature": feature, "enabled": True})
    assert answer.status_code == 204


def post(nakadi: Nakadi, *created: EventType, **members: Any) -> Any:
    return nakadi.http.post("/subscriptions", json=definition(*created, **members))


def refused(nakadi: Nakadi, *created: EventType, **members: Any) -> str:
    return str(problem(post(nakadi, *created, **members), 422)["detail"])


# 5.1: creation


def test_what_is_created_is_shown_whole_and_found_again(nakadi: Nakadi) -> None:
    """5.1; SubscriptionAT.testSubscriptionBaseOperations: 201, then 200 with the same body, then GET."""
    created = nakadi.create()
    given = {"owning_application": f"app.{uuid.uuid4().hex}", "event_types": [created.name]}
    answer = nakadi.http.post("/subscriptions", json=given)
    assert answer.status_code == 201, answer.text
    shown = answer.json()
    assert set(shown) == MEMBERS, "no status, unless it is asked for"
    defaults = {
        "consumer_group": "default",
        "read_from": "end",
        "initial_cursors": [],
        "authorization": None,
        "annotations": {},
        "labels": {},
    }
    assert {name: shown[name] for name in given | defaults} == given | defaults
    assert shown["updated_at"] == shown["created_at"]
    assert str(uuid.UUID(shown["id"])) == shown["id"]
    path = f"/subscriptions/{shown['id']}"
    assert answer.headers["location"] == answer.headers["content-location"] == path
    again = nakadi.http.post("/subscriptions", json=given)
    assert (again.status_code, again.json()) == (200, shown)
    assert again.headers["location"] == path
    found = nakadi.http.get(path)
    assert (found.status_code, found.json()) == (200, shown)


def test_times_are_iso_8601_with_milliseconds_and_z(nakadi: Nakadi) -> None:
    """0.2."""
    shown = subscribe(nakadi.create()).get()
    for name in ("created_at", "updated_at"):
        date, _, rest = shown[name].partition("T")
        assert (len(date), len(rest), rest[-5], rest[-1]) == (10, 13, ".", "Z"), shown[name]


def test_event_types_are_a_set_and_are_shown_sorted(nakadi: Nakadi) -> None:
    """5.1: duplicates collapse; the same set in another order is the same subscription."""
    one, other = sorted((nakadi.create() for _ in range(2)), key=lambda each: each.name)
    given = definition(other, one, other)
    answer = nakadi.http.post("/subscriptions", json=given)
    assert answer.status_code == 201
    assert answer.json()["event_types"] == [one.name, other.name]
    again = nakadi.http.post("/subscriptions", json=given | {"event_types": [one.name, other.name]})
    assert (again.status_code, again.json()["id"]) == (200, answer.json()["id"])


def test_application_event_types_and_group_tell_subscriptions_apart(nakadi: Nakadi) -> None:
    """5.1."""
    one, other = nakadi.create(), nakadi.create()
    given = definition(one)
    differing: list[dict[str, Any]] = [
        {},
        {"owning_application": "another"},
        {"consumer_group": "another"},
        {"event_types": [one.name, other.name]},
        {"event_types": [other.name]},
    ]
    found = [nakadi.http.post("/subscriptions", json=given | each) for each in differing]
    assert [each.status_code for each in found] == [201] * len(differing)
    assert len({each.json()["id"] for each in found}) == len(differing)


@pytest.mark.parametrize(
    "members",
    [
        {"read_from": "begin"},
        {"authorization": EVERYBODY},
        {"labels": {"team": "blue"}},
        {"read_from": "cursors", "initial_cursors": []},
    ],
    ids=["read_from", "authorization", "labels", "cursors that do not do"],
)
def test_what_else_differs_is_ignored_where_it_is_there_already(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """5.1: the one that is there is returned as it is."""
    given = definition(nakadi.create())
    first = nakadi.http.post("/subscriptions", json=given)
    again = nakadi.http.post("/subscriptions", json=given | members)
    assert (again.status_code, again.json()) == (200, first.json())


def test_all_that_is_given_is_kept(nakadi: Nakadi) -> None:
    """5.1: also cursors that are not begun at, where something else is asked for."""
    created = nakadi.create()
    cursor = {"event_type": created.name, "partition": "0", "offset": "BEGIN"}
    given = definition(
        created,
        read_from="begin",
        initial_cursors=[cursor],
        authorization=EVERYBODY,
        annotations={"nakadi.io/x": "y"},
        labels={"team": "blue"},
    )
    shown = nakadi.http.post("/subscriptions", json=given).json()
    assert {name: shown[name] for name in given} == given


def test_where_it_begins_is_written_in_any_case(nakadi: Nakadi) -> None:
    """0.2: enums are parsed so, and shown lower-case."""
    answer = post(nakadi, nakadi.create(), read_from="BEGIN")
    assert (answer.status_code, answer.json()["read_from"]) == (201, "begin")


def test_where_it_begins_is_called_by_one_name(nakadi: Nakadi) -> None:
    """11, no. 26: start_from, as old documents have it, is a member like any that nobody knows."""
    answer = post(nakadi, nakadi.create(), start_from="begin")
    assert (answer.status_code, answer.json()["read_from"]) == (201, "end")


def test_a_whole_body_may_be_posted_back(nakadi: Nakadi) -> None:
    """0.2: unknown members are ignored, and what the hub writes is its own."""
    shown = subscribe(nakadi.create()).get()
    group = f"group.{uuid.uuid4().hex}"
    answer = nakadi.http.post("/subscriptions", json=shown | {"consumer_group": group, "status": [], "what": "ever"})
    assert answer.status_code == 201
    assert answer.json()["id"] != shown["id"]


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"owning_application": None}, 422),
        ({"owning_application": ""}, 422),
        ({"event_types": None}, 422),
        ({"event_types": []}, 422),
        ({"consumer_group": ""}, 422),
        ({"authorization": {"admins": [], "readers": []}}, 422),
        ({"authorization": {"admins": [JANE], "readers": []}}, 422),
        ({"authorization": {"admins": [], "readers": [JANE]}}, 422),
        ({"authorization": {"admins": [JANE]}}, 422),
        ({"annotations": {"": "x"}}, 422),
        ({"labels": {"-x": "y"}}, 422),
        ({"read_from": "middle"}, 400),
        ({"event_types": "one"}, 400),
        ({"event_types": [1]}, 400),
        ({"owning_application": 1}, 400),
        ({"initial_cursors": {}}, 400),
        ({"authorization": []}, 400),
    ],
    ids=str,
)
def test_a_field_that_breaks_a_rule_is_refused(nakadi: Nakadi, members: dict[str, Any], status: int) -> None:
    """5.1, 6; SubscriptionAT.testSubscriptionWithNullAuthorisation: empty lists are 422; wrong types are 400."""
    problem(post(nakadi, nakadi.create(), **members), status)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'"x"', b'{"owning_application":'])
def test_a_body_that_cannot_be_read_is_answered_400(nakadi: Nakadi, body: bytes) -> None:
    """0.2."""
    problem(nakadi.http.post("/subscriptions", content=body, headers={"Content-Type": "application/json"}), 400)


def test_event_types_that_are_not_there_are_listed(nakadi: Nakadi) -> None:
    """5.1, 6: inside a body it is 422."""
    detail = refused(nakadi, nakadi.create(), EventType(nakadi.http, "no.such"), EventType(nakadi.http, "none.such"))
    assert "'no.such', 'none.such'" in detail


def test_one_may_read_many_event_types(nakadi: Nakadi) -> None:
    """5.1; SubscriptionAT.testSubscriptionWithManyEventTypesIsCreated: ten."""
    many = [nakadi.create() for _ in range(10)]
    assert len(subscribe(*many).get()["event_types"]) == 10


def test_there_is_a_most_of_partitions_in_all(strict: Nakadi) -> None:
    """0.1, 5.1; SubscriptionAT.testSubscriptionWithManyEventTypesIsNotCreated, with the limit of 100."""
    many = [strict.create(partitions=8) for _ in range(12)]
    one, four = strict.create(), strict.create(partitions=4)
    assert post(strict, *many, four).status_code == 201
    wanted = "total partition count for subscription is 101, but the maximum partition count is 100"
    assert refused(strict, *many, four, one) == wanted


def test_exactly_one_of_those_who_create_the_same_creates_it(nakadi: Nakadi) -> None:
    """5.1: all are told of one subscription."""
    given = definition(nakadi.create())
    found = at_once([lambda: nakadi.http.post("/subscriptions", json=given)] * 8)
    assert sorted(each.status_code for each in found) == [200] * 7 + [201]
    assert len({each.text for each in found}) == 1


def test_creation_can_be_switched_off(nakadi: Nakadi, restored: None) -> None:
    """5.1, 6: 503; one that is there already is shown nevertheless."""
    created = nakadi.create()
    given = definition(created)
    shown = nakadi.http.post("/subscriptions", json=given).json()
    for feature in ("disable_subscription_creation", "disable_db_write_operations"):
        switch_on(nakadi, feature)
        problem(post(nakadi, created), 503)
        again = nakadi.http.post("/subscriptions", json=given)
        assert (again.status_code, again.json()) == (200, shown)
        as_new(nakadi.http)
    assert post(nakadi, created).status_code == 201


# 5.1: cursors to begin at


def cursors(created: EventType, *offsets: str) -> list[dict[str, str]]:
    return [
        {"event_type": created.name, "partition": str(number), "offset": each} for number, each in enumerate(offsets)
    ]


ALL = "initial_cursors should contain cursors for all partitions of subscription"


def test_it_needs_cursors_to_begin_at_cursors(nakadi: Nakadi) -> None:
    """5.1; SubscriptionAT.testSubscriptionWithReadFromCursorsWithoutInitialCursors."""
    assert refused(nakadi, nakadi.create(), read_from="cursors") == ALL


def test_cursors_are_one_for_each_partition_and_no_others(nakadi: Nakadi) -> None:
    """5.1."""
    created, other = nakadi.create(partitions=2), nakadi.create()
    right = cursors(created, "BEGIN", "BEGIN")
    for wrong, why in (
        (right[:1], f"partition 1 of '{created.name}' has none"),
        ([*right, right[0]], f"partition 0 of '{created.name}' has two"),
        ([right[0], right[0]], f"partition 0 of '{created.name}' has two"),
        ([*right, *cursors(other, "BEGIN")], f"partition 0 of '{other.name}' is not one of them"),
        (cursors(created, "BEGIN", "BEGIN", "BEGIN"), f"partition 2 of '{created.name}' is not one of them"),
        ([right[0], right[1] | {"partition": "x"}], f"partition x of '{created.name}' is not one of them"),
    ):
        asked = {"read_from": "cursors", "initial_cursors": wrong}
        assert refused(nakadi, created, **asked) == ALL
        assert post(nakadi, created, **asked).json()["reason"].endswith(f", and no other: {why}")
    assert post(nakadi, created, read_from="cursors", initial_cursors=right).status_code == 201


@pytest.mark.parametrize("text", ["x", "99", "001-0001-000000000000000002", "001-0002-000000000000000000", ""])
def test_a_cursor_to_begin_at_must_be_available(nakadi: Nakadi, text: str) -> None:
    """5.1."""
    created = numbered(nakadi)
    put(created, 0, 1)
    refused(nakadi, created, read_from="cursors", initial_cursors=cursors(created, text))
    right = cursors(created, "001-0001-000000000000000001")
    assert post(nakadi, created, read_from="cursors", initial_cursors=right).status_code == 201


# 5.2: PUT


def test_what_is_attached_and_who_may_can_be_changed(nakadi: Nakadi) -> None:
    """5.2; SubscriptionAT.testSubscriptionAnnotationLabelIsUpdated."""
    found = subscribe(nakadi.create())
    before = found.get()
    members = {"annotations": {"a": "b"}, "labels": {"c": "d"}, "authorization": EVERYBODY}
    answer = found.put(**members)
    assert (answer.status_code, answer.content) == (204, b"")
    after = found.get()
    assert {name: after[name] for name in members} == members
    assert after["updated_at"] > before["updated_at"]
    assert after["created_at"] == before["created_at"]


@pytest.mark.parametrize(
    "members",
    [
        {"consumer_group": "another"},
        {"owning_application": "another"},
        {"read_from": "end"},
        {"event_types": ["another"]},
        {"initial_cursors": [{"event_type": "another", "partition": "0", "offset": "BEGIN"}]},
    ],
    ids=str,
)
def test_what_it_is_cannot_be_changed(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """5.2."""
    found = subscribe(nakadi.create())
    before = found.get()
    problem(found.put(**members), 422)
    assert found.get() == before


def test_an_authorization_does_not_go_back_to_null(nakadi: Nakadi) -> None:
    """5.2."""
    found = subscribe(nakadi.create(), authorization=EVERYBODY)
    problem(found.put(authorization=None), 422)
    assert found.put(authorization=EVERYBODY | {"admins": [JANE, JANE | {"value": "joe"}]}).status_code == 204


def test_it_is_put_back_as_it_is_shown(nakadi: Nakadi) -> None:
    """0.2."""
    found = subscribe(nakadi.create())
    shown = found.get()
    assert nakadi.http.put(found.path, json=shown | {"status": [], "id": "x"}).status_code == 204
    after = found.get()
    assert {name: after[name] for name in MEMBERS - {"updated_at"}} == {
        name: shown[name] for name in MEMBERS - {"updated_at"}
    }


# 5.2: DELETE; 2.9


def test_one_that_is_deleted_is_gone_with_its_cursors(nakadi: Nakadi) -> None:
    """5.2; SubscriptionAT.testDeleteSubscription."""
    found = filled(nakadi, 2)
    shown = found.get()
    with found.stream() as consumer:
        consumer.done(consumer.batch())
    found.drop()
    problem(nakadi.http.get(found.path), 404)
    problem(nakadi.http.delete(found.path), 404)
    again = nakadi.http.post("/subscriptions", json=shown)
    assert again.status_code == 201
    assert again.json()["id"] != found.id
    assert Subscription(nakadi.http, again.json()).cursors() == {}


def test_an_event_type_that_is_read_does_not_go(nakadi: Nakadi) -> None:
    """2.9; SubscriptionAT.testDeleteEventTypeRestriction: 409."""
    created = nakadi.create()
    found = subscribe(created)
    problem(nakadi.http.delete(created.path), 409)
    found.drop()
    created.drop()


def test_an_event_type_goes_with_its_subscriptions_where_that_is_on(nakadi: Nakadi, restored: None) -> None:
    """2.9; SubscriptionAT.testDeleteEventTypeRestrictionFeatureToggle."""
    created = nakadi.create()
    found = subscribe(created)
    switch_on(nakadi, "delete_event_type_with_subscriptions")
    created.drop()
    problem(nakadi.http.get(found.path), 404)


def test_an_archive_stands_in_no_ones_way(nakadi: Nakadi) -> None:
    """0.1, 2.9; SubscriptionAT.testDeleteEventTypeRestrictionDeletable: all of them, else 409."""
    created = nakadi.create()
    archive = subscribe(created, owning_application="nakadi_archiver", consumer_group="nakadi_to_s3")
    other = subscribe(created)
    problem(nakadi.http.delete(created.path), 409)
    other.drop()
    created.drop()
    problem(nakadi.http.get(archive.path), 404)
