"""Members of groups over HTTP: they share partitions by leases, and are bounded, shown, removed and swept."""

from typing import Any

import httpx2
import pytest

from penstock.hub.groups import members
from penstock.hub.hub import Hub
from penstock.testing.factories import an_event_type
from tests.served import Served, problem_of, until
from tests.server.test_groups import at, commit, new_name, show


def renew(feed: Served, group: str, member: str, *partitions: int, **given: Any) -> httpx2.Response:
    tranches = [f"{feed.name}/{partition}" for partition in partitions]
    body = {"tranches": tranches, "lease_seconds": 60, **given}
    return feed.http.post(f"/groups/{group}/members/{member}", json=body)


def held(answer: httpx2.Response) -> list[list[int]]:
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [[int(each.rpartition("/")[2]) for each in found[name]] for name in ("tranches", "leaving", "coming")]


def test_members_share_partitions_and_hand_them_over(feed4: Served) -> None:
    group, http = new_name(), feed4.http
    assert held(renew(feed4, group, "a", 0, 1, 2, 3)) == [[0, 1, 2, 3], [], []]
    tranches, _, coming = held(renew(feed4, group, "b", 0, 1, 2, 3))
    assert (tranches, len(coming)) == ([], 2)
    kept, leaving, _ = held(renew(feed4, group, "a", 0, 1, 2, 3))
    assert sorted(kept + leaving) == [0, 1, 2, 3]
    assert leaving == coming
    released = {"tranches": [f"{feed4.name}/{each}" for each in leaving]}
    assert held(http.post(f"/groups/{group}/members/a/release", json=released)) == [kept, [], []]
    assert held(renew(feed4, group, "b", 0, 1, 2, 3))[0] == coming

    shown = {each["member"]: each for each in show(http, group)["members"]}
    assert {name: len(each["tranches"]) for name, each in shown.items()} == {"a": 2, "b": 2}
    assert not any(each["leaving"] for each in shown.values())
    assert held(renew(feed4, group, "a", leaving=True))[1] == kept
    assert [each["leaving"] for each in show(http, group)["members"]] == [True, False]
    assert http.delete(f"/groups/{group}/members/a").status_code == 204
    assert held(renew(feed4, group, "b"))[0] == [0, 1, 2, 3]
    assert [each["member"] for each in show(http, group)["members"]] == ["b"]


def test_member_whose_lease_has_ended_is_not_shown_and_has_nothing(feed4: Served) -> None:
    group = new_name()
    assert held(renew(feed4, group, "a", 0, lease_seconds=0.1))[0] == [0]
    until(lambda: "members" not in show(feed4.http, group))
    assert held(renew(feed4, group, "b", 0))[0] == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_seconds": 0.05}, {"lease_seconds": 3601}, {"lease_seconds": "60"}, {"lease_seconds": None},
        {"tranches": ["x"]}, {"tranches": ["x/"]}, {"tranches": ["nowhere/0"]}, {"tranches": ["a/b/0"]},
        {"tranches": ["x/00"]}, {"tranches": ["x" * 301]}, {"tranches": "a"}, {"leaving": 1}, {"more": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_malformed_renewal_is_refused_and_creates_no_group(feed4: Served, wrong: dict[str, Any]) -> None:
    group = new_name()
    problem_of(renew(feed4, group, "a", 0, **wrong), 400, "bad-parameter")
    problem_of(renew(feed4, group, "a", 4), 400, "bad-parameter")
    problem_of(feed4.http.get(f"/groups/{group}"), 404, "group-not-found")


def test_members_and_partitions_of_a_group_are_bounded(feed4: Served) -> None:
    group = new_name()
    for number in range(members.MEMBERS_MAX):
        assert renew(feed4, group, f"m{number}", 0).status_code == 200
    refused = problem_of(renew(feed4, group, "more", 0), 429, "too-many-members")
    assert (refused["group"], refused["limit"]) == (group, members.MEMBERS_MAX)
    assert renew(feed4, group, "m7", 0).status_code == 200
    for name in ("x" * 101, "%00", "%C3%BC"):
        assert renew(feed4, group, name, 0).status_code in (400, 404), name


def test_only_processors_have_members_and_none_but_a_named_partition_creates_a_group(feed4: Served) -> None:
    group, spark, http = new_name(), new_name(), feed4.http
    problem_of(renew(feed4, group, "a"), 404, "group-not-found")
    problem_of(http.delete(f"/groups/{group}/members/a"), 404, "group-not-found")
    problem_of(http.post(f"/groups/{group}/members/a/release", json={"tranches": []}), 404, "group-not-found")
    assert commit(http, spark, at(feed4, 0, 0), kind="spark").status_code == 200
    problem_of(renew(feed4, spark, "a", 0), 409, "group-kind-differs")


def test_members_go_with_their_group(feed4: Served) -> None:
    group = new_name()
    assert renew(feed4, group, "a", 0).status_code == 200
    assert feed4.http.delete(f"/groups/{group}").status_code == 204
    problem_of(renew(feed4, group, "a"), 404, "group-not-found")
    assert held(renew(feed4, group, "b", 0))[0] == [0]


@pytest.mark.parametrize("url", ["sqlite_url", "migrated_postgres_url"])
def test_sweep_forgets_members_whose_leases_have_ended_and_no_others(request: pytest.FixtureRequest, url: str) -> None:
    from tests.server.in_process import open_hub

    hub: Hub = open_hub(request.getfixturevalue(url))
    hub.registry.create(an_event_type("order.placed"))
    hub.groups.members.renew("gone", "a", ["order.placed/0"], 0.000001)
    hub.groups.members.renew("there", "a", ["order.placed/0"], 600)

    def shares_after_a_sweep() -> list[str]:
        hub.groups.members.sweep()
        with hub.store.read() as tx:
            return list(tx.groups.list_sharing("", 9))

    until(lambda: shares_after_a_sweep() == ["there"])
