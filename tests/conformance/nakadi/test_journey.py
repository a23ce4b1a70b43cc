"""The journey of a user through the low-level interface (8.2, UserJourneyAT), from end to end."""

from typing import Any

import pytest

from tests.nakadi import EventType, Nakadi, business, json_schema, problem, statistic

FOO = '{ "type": "object", "properties": { "foo": { "type": "string" }, "bar": { "properties": { "baz": {} } } } }'
FOO_AND_MORE = (
    '{ "type": "object", "properties": { "foo": { "type": "string" }, '
    '"bar": { "properties": { "baz": {}, "more": { "type": "string" } } } } }'
)
FIRST, SECOND = "001-0001-000000000000000000", "001-0001-000000000000000001"


@pytest.fixture(params=["as it is", "strict"])
def hub(request: pytest.FixtureRequest, database: str) -> Nakadi:
    found: Nakadi = request.getfixturevalue("nakadi" if request.param == "as it is" else "strict")
    return found


def at(offset: str, **members: Any) -> dict[str, Any]:
    return {"partition": "0", "offset": offset} | members


def test_the_journey_of_a_user(hub: Nakadi) -> None:
    """8.2; UserJourneyAT.userJourneyM1."""
    definition = hub.definition(
        owning_application="stups_aruha-test-end2end-nakadi",
        audience="external-public",
        ordering_key_fields=["foo", "bar.baz"],
        ordering_instance_ids=["foo"],
        default_statistic=statistic(1),
        schema=json_schema(FOO),
    )
    name, http = definition["name"], hub.http

    # An event type is created, shown, listed.
    answer = http.post("/event-types", json=definition)
    assert (answer.status_code, answer.content) == (201, b"")
    shown = http.get(f"/event-types/{name}").json()
    asked = ("name", "owning_application", "category", "audience", "ordering_key_fields", "ordering_instance_ids")
    assert {each: shown[each] for each in asked} == {each: definition[each] for each in asked}
    assert (shown["schema"]["type"], shown["schema"]["schema"]) == ("json_schema", FOO)
    assert shown["schema"]["version"] == "1.0.0"
    assert shown in http.get("/event-types").json()

    # It gets an optional property, and an owner of another name.
    definition |= {"owning_application": "my-app", "schema": json_schema(FOO_AND_MORE)}
    answer = http.put(f"/event-types/{name}", json=definition)
    assert (answer.status_code, answer.content) == (200, b"")
    shown = http.get(f"/event-types/{name}").json()
    assert shown["owning_application"] == "my-app"
    assert (shown["schema"]["version"], shown["schema"]["schema"]) == ("1.1.0", FOO_AND_MORE)

    # Two events are published.
    first, second = '{"foo":"56781234-5678-5678-5678-567812345678"}', '{"foo":"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"}'
    sent = {"Content-Type": "application/json"}
    for event in (first, second):
        answer = http.post(f"/event-types/{name}/events", content=f"[{event}]", headers=sent)
        assert (answer.status_code, answer.content) == (200, b"")

    # The partition tells where it begins and ends.
    partition = {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": SECOND}
    assert http.get(f"/event-types/{name}/partitions/0").json() == partition
    assert http.get(f"/event-types/{name}/partitions").json() == [partition]

    # They are read, byte for byte.
    cursors = {"X-nakadi-cursors": '[{"partition": "0", "offset": "BEGIN"}]'}
    limits = {"batch_limit": "2", "stream_limit": "2"}
    answer = http.get(f"/event-types/{name}/events", params=limits, headers=cursors)
    assert answer.status_code == 200
    line = f'{{"cursor":{{"partition":"0","offset":"{SECOND}"}},"events":[{first},{second}]}}\n'
    assert answer.text == line

    # Cursors are held against each other.
    pair = {"initial_cursor": at(FIRST), "final_cursor": at(SECOND)}
    answer = http.post(f"/event-types/{name}/cursor-distances", json=[pair])
    assert (answer.status_code, answer.json()) == (200, [pair | {"distance": 1}])
    shifts = [at(FIRST, shift=1), at(SECOND, shift=-1)]
    answer = http.post(f"/event-types/{name}/shifted-cursors", json=shifts)
    assert (answer.status_code, answer.json()) == (200, [at(SECOND), at(FIRST)])
    answer = http.post(f"/event-types/{name}/cursors-lag", json=[at(FIRST)])
    assert (answer.status_code, answer.json()) == (200, [partition | {"unconsumed_events": 1}])


def test_the_journey_of_one_who_needs_more_partitions(hub: Nakadi) -> None:
    """8.2; UserJourneyAT.testRepartition: and once more changes nothing."""
    created = hub.create(default_statistic=statistic(1))
    created.publish({"foo": "before"})
    for _ in range(2):
        answer = hub.http.put(f"{created.path}/partition-count", json={"partition_count": 3})
        assert (answer.status_code, answer.content) == (204, b"")
        assert [each["partition"] for each in created.partitions()] == ["0", "1", "2"]
        found = created.shown()["default_statistic"]
        assert (found["read_parallelism"], found["write_parallelism"]) == (3, 3)
    created.publish({"foo": "after"})
    assert len(created.events(2)) == 2


def test_the_journey_of_one_who_has_enough(hub: Nakadi) -> None:
    """8.2; UserJourneyAT.testEventTypeDeletion."""
    created = hub.create(category="business")
    created.publish(business(foo="a"))
    created.drop()
    problem(hub.http.get(created.path), 404)
    problem(EventType(hub.http, created.name).get("/events"), 404)
