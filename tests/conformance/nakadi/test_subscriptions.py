"""Subscriptions: created, shown, listed, replaced and deleted."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import JANE, ON_SQLITE, pick, refuses, switch
from tests.nakadi import EventType, Nakadi, offset, problem
from tests.producing import together
from tests.served import as_new
from tests.subscribing import Subscription, definition, filled, numbered, put, subscribe

EVERYBODY = {"admins": [JANE], "readers": [JANE]}
DEFAULTS = {
    "consumer_group": "default",
    "read_from": "end",
    "initial_cursors": [],
    "authorization": None,
    "annotations": {},
    "labels": {},
}


def post(nakadi: Nakadi, *created: EventType, **members: Any) -> Any:
    return nakadi.http.post("/subscriptions", json=definition(*created, **members))


def refused(nakadi: Nakadi, *created: EventType, **members: Any) -> str:
    return str(problem(post(nakadi, *created, **members), 422)["detail"])


# Creating


def test_subscription_is_created_once_with_nakadis_defaults(nakadi: Nakadi) -> None:
    """SubscriptionAT.testSubscriptionBaseOperations: 201, then 200 with the same body, then GET."""
    given = {"owning_application": f"app.{uuid.uuid4().hex}", "event_types": [nakadi.create().name]}
    first, again = (nakadi.http.post("/subscriptions", json=given) for _ in range(2))
    shown = first.json()
    assert (first.status_code, again.status_code, again.json()) == (201, 200, shown)
    assert shown.keys() == given.keys() | DEFAULTS.keys() | {"id", "created_at", "updated_at"}, "no status"
    assert pick(shown, given | DEFAULTS) == given | DEFAULTS
    assert str(uuid.UUID(shown["id"])) == shown["id"]
    path = f"/subscriptions/{shown['id']}"
    assert first.headers["location"] == first.headers["content-location"] == again.headers["location"] == path
    assert nakadi.http.get(path).json() == shown
    date, _, rest = shown["created_at"].partition("T")
    assert (len(date), len(rest), rest[-5], rest[-1], shown["updated_at"]) == (10, 13, ".", "Z", shown["created_at"])


def test_all_given_members_are_kept_and_unknown_ones_ignored(nakadi: Nakadi) -> None:
    """Also cursors that are not begun at. `start_from`, as old documents have it, is unknown."""
    created = nakadi.create()
    given = definition(
        created,
        initial_cursors=[{"event_type": created.name, "partition": "0", "offset": "BEGIN"}],
        authorization=EVERYBODY,
        annotations={"nakadi.io/x": "y"},
        labels={"team": "blue"},
    )
    answer = nakadi.http.post("/subscriptions", json=given | {"read_from": "BEGIN", "start_from": "end", "status": []})
    shown = answer.json()
    assert (answer.status_code, shown["read_from"]) == (201, "begin")
    assert pick(shown, given) == given
    again = nakadi.http.post("/subscriptions", json=shown | {"consumer_group": "another", "what": "ever"})
    assert (again.status_code, again.json()["id"] == shown["id"]) == (201, False)


def test_application_group_and_set_of_event_types_identify_a_subscription(nakadi: Nakadi) -> None:
    """Other members are ignored where it exists."""
    one, other = sorted((nakadi.create() for _ in range(2)), key=lambda each: each.name)
    given = definition(other, one, other)
    first = nakadi.http.post("/subscriptions", json=given)
    assert (first.status_code, first.json()["event_types"]) == (201, [one.name, other.name])
    same: list[dict[str, Any]] = [
        {"event_types": [one.name, other.name]},
        {"read_from": "begin"},
        {"authorization": EVERYBODY},
        {"labels": {"team": "blue"}},
        {"read_from": "cursors", "initial_cursors": []},
    ]
    for members in same:
        again = nakadi.http.post("/subscriptions", json=given | members)
        assert (again.status_code, again.json()) == (200, first.json())
    differing: list[dict[str, Any]] = [
        {"owning_application": "another"},
        {"consumer_group": "another"},
        {"event_types": [one.name]},
        {"event_types": [other.name]},
    ]
    found = [nakadi.http.post("/subscriptions", json=given | each) for each in differing]
    assert [each.status_code for each in found] == [201] * len(differing)
    assert len({each.json()["id"] for each in [first, *found]}) == 1 + len(differing)


def test_concurrent_creations_of_one_subscription_create_it_once(nakadi: Nakadi) -> None:
    given = definition(nakadi.create())
    found = together([lambda: nakadi.http.post("/subscriptions", json=given)] * 8)
    assert sorted(each.status_code for each in found) == [200] * 7 + [201]
    assert len({each.text for each in found}) == 1


@ON_SQLITE
@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"owning_application": None}, 422),
        ({"event_types": None}, 422),
        ({"event_types": []}, 422),
        ({"consumer_group": ""}, 422),
        ({"authorization": {"admins": [], "readers": []}}, 422),
        ({"authorization": {"admins": [JANE]}}, 422),
        ({"annotations": {"": "x"}}, 422),
        ({"labels": {"-x": "y"}}, 422),
        ({"read_from": "middle"}, 400),
        ({"event_types": [1]}, 400),
        ({"owning_application": 1}, 400),
        ({"initial_cursors": {}}, 400),
    ],
    ids=str,
)
def test_field_that_breaks_a_rule_is_refused(nakadi: Nakadi, members: dict[str, Any], status: int) -> None:
    """SubscriptionAT.testSubscriptionWithNullAuthorisation."""
    problem(post(nakadi, nakadi.create(), **members), status)


def test_unknown_event_types_are_named(nakadi: Nakadi) -> None:
    detail = refused(nakadi, nakadi.create(), EventType(nakadi.http, "no.such"), EventType(nakadi.http, "none.such"))
    assert "'no.such', 'none.such'" in detail


def test_event_types_of_a_subscription_have_at_most_100_partitions_on_a_strict_hub(strict: Nakadi) -> None:
    """SubscriptionAT.testSubscriptionWithManyEventTypesIsCreated, testSubscriptionWithManyEventTypesIsNotCreated."""
    many = [strict.create(partitions=8) for _ in range(12)]
    one, four = strict.create(), strict.create(partitions=4)
    assert len(subscribe(*many, four).get()["event_types"]) == 13
    wanted = "total partition count for subscription is 101, but the maximum partition count is 100"
    assert refused(strict, *many, four, one) == wanted


@pytest.mark.usefixtures("restored")
def test_disabled_creation_is_answered_503_and_shows_existing_subscriptions(nakadi: Nakadi) -> None:
    created = nakadi.create()
    given = definition(created)
    shown = nakadi.http.post("/subscriptions", json=given).json()
    for feature in ("disable_subscription_creation", "disable_db_write_operations"):
        switch(nakadi, feature)
        problem(post(nakadi, created), 503)
        again = nakadi.http.post("/subscriptions", json=given)
        assert (again.status_code, again.json()) == (200, shown)
        as_new(nakadi.http)
    assert post(nakadi, created).status_code == 201


# Initial cursors


def cursors(created: EventType, *offsets: str) -> list[dict[str, str]]:
    return [
        {"event_type": created.name, "partition": str(number), "offset": each} for number, each in enumerate(offsets)
    ]


def test_initial_cursors_are_one_for_each_partition(nakadi: Nakadi) -> None:
    """SubscriptionAT.testSubscriptionWithReadFromCursorsWithoutInitialCursors."""
    created, other = nakadi.create(partitions=2), nakadi.create()
    right = cursors(created, "BEGIN", "BEGIN")
    rule = "initial_cursors should contain cursors for all partitions of subscription"
    assert refused(nakadi, created, read_from="cursors") == rule
    for wrong, why in (
        (right[:1], f"partition 1 of '{created.name}' has none"),
        ([*right, right[0]], f"partition 0 of '{created.name}' has two"),
        ([*right, *cursors(other, "BEGIN")], f"partition 0 of '{other.name}' is not one of them"),
        (cursors(created, "BEGIN", "BEGIN", "BEGIN"), f"partition 2 of '{created.name}' is not one of them"),
        ([right[0], right[1] | {"partition": "x"}], f"partition x of '{created.name}' is not one of them"),
    ):
        found = problem(post(nakadi, created, read_from="cursors", initial_cursors=wrong), 422)
        assert found["detail"] == rule
        assert found["reason"].endswith(f", and no other: {why}")
    assert post(nakadi, created, read_from="cursors", initial_cursors=right).status_code == 201


def test_initial_cursor_must_be_available(nakadi: Nakadi) -> None:
    created = numbered(nakadi)
    put(created, 0, 1)
    for text in ("x", "99", offset(2), "001-0002-000000000000000000", ""):
        refused(nakadi, created, read_from="cursors", initial_cursors=cursors(created, text))
    assert post(nakadi, created, read_from="cursors", initial_cursors=cursors(created, offset(1))).status_code == 201


# Replacing


def test_replacement_changes_annotations_labels_and_authorization(nakadi: Nakadi) -> None:
    """SubscriptionAT.testSubscriptionAnnotationLabelIsUpdated; a body is put back as it is shown."""
    found = subscribe(nakadi.create())
    before = found.get()
    assert nakadi.http.put(found.path, json=before | {"status": [], "id": "x"}).status_code == 204
    assert found.get() == before | {"updated_at": found.get()["updated_at"]}
    members = {"annotations": {"a": "b"}, "labels": {"c": "d"}, "authorization": EVERYBODY}
    answer = found.put(**members)
    assert (answer.status_code, answer.content) == (204, b"")
    after = found.get()
    assert after == before | members | {"updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]


def test_replacement_of_other_members_changes_nothing(nakadi: Nakadi) -> None:
    found = subscribe(nakadi.create(), authorization=EVERYBODY)
    before = found.get()
    cursor = {"event_type": "another", "partition": "0", "offset": "BEGIN"}
    for members in (
        {"consumer_group": "another"},
        {"owning_application": "another"},
        {"read_from": "end"},
        {"event_types": ["another"]},
        {"initial_cursors": [cursor]},
        {"authorization": None},
    ):
        problem(found.put(**members), 422)
    assert found.get() == before


# Deleting


def test_deleted_subscription_is_gone_with_its_cursors(nakadi: Nakadi) -> None:
    """SubscriptionAT.testDeleteSubscription."""
    found = filled(nakadi, 2)
    shown = found.get()
    with found.stream() as consumer:
        consumer.done(consumer.batch())
    found.drop()
    problem(nakadi.http.get(found.path), 404)
    problem(nakadi.http.delete(found.path), 404)
    again = nakadi.http.post("/subscriptions", json=shown)
    assert (again.status_code, again.json()["id"] == found.id) == (201, False)
    assert Subscription(nakadi.http, again.json()).cursors() == {}


@pytest.mark.usefixtures("restored")
def test_event_type_with_subscriptions_is_deleted_only_if_allowed(nakadi: Nakadi) -> None:
    """SubscriptionAT.testDeleteEventTypeRestriction, testDeleteEventTypeRestrictionFeatureToggle."""
    created = nakadi.create()
    found = subscribe(created)
    problem(nakadi.http.delete(created.path), 409)
    assert created.shown()
    switch(nakadi, "delete_event_type_with_subscriptions")
    created.drop()
    problem(nakadi.http.get(found.path), 404)
    assert not any(created.name in each["event_types"] for each in nakadi.http.get("/groups").json()["items"])


def test_event_type_with_archives_alone_is_deleted_with_them(nakadi: Nakadi) -> None:
    """SubscriptionAT.testDeleteEventTypeRestrictionDeletable."""
    created = nakadi.create()
    archive = subscribe(created, owning_application="nakadi_archiver", consumer_group="nakadi_to_s3")
    other = subscribe(created)
    problem(nakadi.http.delete(created.path), 409)
    other.drop()
    created.drop()
    problem(nakadi.http.get(archive.path), 404)


@ON_SQLITE
@pytest.mark.parametrize("subscription_id", ["no-such", str(uuid.UUID(int=0))])
def test_unknown_subscription_is_named_in_nakadis_words(strict: Nakadi, subscription_id: str) -> None:
    """SubscriptionAT.testGetSubscriptionNotFound."""
    body = definition(strict.create())
    path, stream = f"/subscriptions/{subscription_id}", {"X-Nakadi-StreamId": str(uuid.uuid4())}
    cursor = {"event_type": body["event_types"][0], "partition": "0", "offset": "BEGIN"}
    for answer in (
        strict.http.get(path),
        strict.http.put(path, json=body),
        strict.http.delete(path),
        strict.http.get(f"{path}/cursors"),
        strict.http.get(f"{path}/stats"),
        strict.http.get(f"{path}/events"),
        strict.http.post(f"{path}/events", json={}),
        strict.http.patch(f"{path}/cursors", json={"items": []}),
        strict.http.post(f"{path}/cursors", json={"items": [cursor]}, headers=stream),
    ):
        refuses(answer, 404, f'Subscription with id "{subscription_id}" does not exist')


# Lists


def several(nakadi: Nakadi, count: int, **members: Any) -> tuple[str, list[str]]:
    """Create *count* subscriptions of a new application; return it, and their ids, the newest first."""
    created, owner = nakadi.create(), f"app.{uuid.uuid4().hex}"
    found = [subscribe(created, owning_application=owner, **members).id for _ in range(count)]
    return owner, found[::-1]


def listed(nakadi: Nakadi, **arguments: Any) -> tuple[list[str], dict[str, str]]:
    """Return the ids in a list, and its links."""
    answer = nakadi.http.get("/subscriptions", params=arguments)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"items", "_links"}
    return [each["id"] for each in body["items"]], {name: each["href"] for name, each in body["_links"].items()}


def test_list_holds_whole_subscriptions_the_newest_first(nakadi: Nakadi) -> None:
    """SubscriptionAT.testListSubscriptions: two of one application, without links."""
    owner, ids = several(nakadi, 2)
    body = nakadi.http.get("/subscriptions", params={"owning_application": owner}).json()
    assert body == {"items": [nakadi.http.get(f"/subscriptions/{each}").json() for each in ids], "_links": {}}
    assert nakadi.http.get("/subscriptions/", params={"owning_application": owner}).json() == body


def test_list_is_filtered_by_reader_and_paged_by_links(nakadi: Nakadi) -> None:
    """SubscriptionAT.testQuerySubscriptionByAuthReturnsOk; a full page has a next one, even if nothing follows."""
    reader, other = f"reader{uuid.uuid4().hex}", {"data_type": "service", "value": "other"}
    mine = {"data_type": "service", "value": reader}
    _, ids = several(nakadi, 4, authorization={"admins": [other], "readers": [other, mine]})
    several(nakadi, 1, authorization={"admins": [mine], "readers": [other]})
    path, asked = f"/subscriptions?reader=service:{reader}", {"reader": f"service:{reader}", "limit": 2}
    first, second, third = (f"{path}&offset={offset}&limit=2" for offset in (0, 2, 4))
    assert listed(nakadi, **asked) == (ids[:2], {"next": second})
    assert listed(nakadi, **asked, offset=2) == (ids[2:], {"prev": first, "next": third})
    assert listed(nakadi, **asked, offset=4) == ([], {"prev": second})
    assert listed(nakadi, reader=f"user:{reader}") == listed(nakadi, reader=f"user:{reader}", limit=1000) == ([], {})


@pytest.mark.parametrize("start", ["limit=2", "token=new&limit=2"])
def test_links_lead_through_all_pages(nakadi: Nakadi, start: str) -> None:
    """Pages with tokens are in the order of ids, and do not lead back."""
    owner, ids = several(nakadi, 5)
    found, path = [], f"/subscriptions?owning_application={owner}&{start}"
    while path:
        body = nakadi.http.get(path).json()
        assert "token" not in start or "prev" not in body["_links"]
        found += [each["id"] for each in body["items"]]
        path = body["_links"].get("next", {}).get("href")
    assert found == (sorted(ids) if "token" in start else ids)


def test_links_repeat_the_parameters_in_one_order(nakadi: Nakadi) -> None:
    owner, ids = several(nakadi, 2, authorization=EVERYBODY)
    name = nakadi.http.get(f"/subscriptions/{ids[0]}").json()["event_types"][0]
    asked = {"limit": 1, "show_status": "true", "owning_application": owner, "reader": "user:jane", "event_type": name}
    given = f"event_type={name}&reader=user:jane&owning_application={owner}&show_status=true"
    assert listed(nakadi, **asked)[1] == {"next": f"/subscriptions?{given}&offset=1&limit=1"}
    link = listed(nakadi, token="new", **asked)[1]["next"]
    assert link.startswith(f"/subscriptions?{given}&token=")
    assert link.endswith("&limit=1")


@pytest.mark.parametrize("joined", [False, True], ids=["repeated", "with commas"])
def test_list_holds_subscriptions_of_all_event_types_asked_for(nakadi: Nakadi, *, joined: bool) -> None:
    one, two, three = (nakadi.create() for _ in range(3))
    owner = f"app.{uuid.uuid4().hex}"
    ids = [subscribe(*each, owning_application=owner).id for each in ([one], [one, two], [one, two, three], [three])]

    def asked(*names: str) -> list[str]:
        given: Sequence[str] | str = ",".join(names) if joined else names
        return listed(nakadi, owning_application=owner, event_type=given)[0]

    assert asked(one.name) == [ids[2], ids[1], ids[0]]
    assert asked(one.name, two.name) == [ids[2], ids[1]]
    assert asked(three.name, one.name) == [ids[2]]
    assert asked("no.such") == []
