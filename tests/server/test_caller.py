"""`GET /caller`: who the caller is, and which rights it has to things; it learns of nothing that it may not view."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller, Claim
from penstock.core.groups.groups import PositionCommit
from penstock.core.subscriptions.definition import complete_subscription
from penstock.server import HubApp
from penstock.server.authentication.proxy_header import ProxyHeaderMethod
from penstock.server.authentication.tokens import TokenMethod
from penstock.testing.factories import an_event_type
from tests.served import problem_of
from tests.server.in_process import open_hub

NAME, OTHER = "order.placed", "order.hidden"
ADDRESS = "10.0.0.7"
EVENT_TYPE, SUBSCRIPTION, GROUP = (
    ("view", "read", "write", "own", "admin"),
    ("view", "read", "admin"),
    ("view", "read", "own"),
)


def a_list(name: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name}]


def rights(of: tuple[str, ...], *which: str) -> dict[str, bool]:
    return {each: each in which for each in of}


class Scene:
    """A hub that knows callers, with an event type, a subscription, and two groups: of a reader, and of nobody."""

    def __init__(self, url: str) -> None:
        self.hub = open_hub(url)
        methods = [TokenMethod(), ProxyHeaderMethod("X-User", "user", [ADDRESS])]
        self.app = HubApp(lambda: self.hub, authentication=methods, administrators=["service:root"])
        lists = {"admins": a_list("admin"), "readers": a_list("reader")}
        self.hub.registry.create(an_event_type(NAME, authorization={**lists, "writers": a_list("writer")}))
        nobody = dict.fromkeys(("admins", "readers", "writers"), a_list("nobody"))
        self.hub.registry.create(an_event_type(OTHER, authorization=nobody))
        given = {"owning_application": "shop", "event_types": [NAME], "authorization": lists}
        self.subscription = self.hub.subscriptions.create(complete_subscription(given))[0].id
        commits = [PositionCommit(NAME, 0, 0)]
        self.hub.groups.commit("mailer", "processor", commits, Claim(Caller("service", "reader")))
        self.hub.groups.commit("unowned", "processor", commits, None)

    def ask(self, name: str, query: str = "") -> dict[str, object]:
        token = self.hub.admin.tokens.create(Caller("service", name)).secret
        http = TestClient(self.app, client=("10.0.0.8", 1), headers={"Authorization": f"Bearer {token}"})
        answer = http.get(f"/caller{query}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        shown: dict[str, object] = answer.json()
        return shown


@pytest.fixture
def scene(migrated_url: str) -> Iterator[Scene]:
    found = Scene(migrated_url)
    with TestClient(found.app):
        yield found


@pytest.mark.parametrize(
    ("name", "event_type", "subscription", "groups"),
    [
        ("root", EVENT_TYPE, SUBSCRIPTION, (GROUP, GROUP)),
        ("admin", ("view", "own", "admin"), ("view", "admin"), (("view", "own"), ("view", "own"))),
        ("reader", ("view", "read", "own"), ("view", "read"), (GROUP, ("view", "read"))),
        ("writer", ("view", "write", "own"), (), (("view",), ("view",))),
        ("stranger", (), (), ((), ())),
    ],
)
def test_caller_learns_its_rights_to_what_it_names(
    scene: Scene,
    name: str,
    event_type: tuple[str, ...],
    subscription: tuple[str, ...],
    groups: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    query = f"?event_type={NAME}&event_type=no.such&subscription={scene.subscription}"
    shown = scene.ask(name, f"{query}&group=mailer&group=unowned&group=x")

    is_root = name == "root"
    assert shown == {
        "type": "service",
        "name": name,
        "method": "token",
        "hub": {"administer": is_root, "monitor": is_root, "create": True, "delete": True, "issue_tokens": is_root},
        "event_types": {NAME: rights(EVENT_TYPE, *event_type), "no.such": rights(EVENT_TYPE)},
        "subscriptions": {scene.subscription: rights(SUBSCRIPTION, *subscription)},
        "groups": {"mailer": rights(GROUP, *groups[0]), "unowned": rights(GROUP, *groups[1]), "x": rights(GROUP)},
    }


def test_things_that_the_caller_may_not_view_look_like_things_that_there_are_not(scene: Scene) -> None:
    shown = scene.ask("stranger", f"?event_type={OTHER}&event_type=no.such&group=mailer&group=no%2Fsuch&subscription=x")

    assert shown["event_types"] == {OTHER: rights(EVENT_TYPE), "no.such": rights(EVENT_TYPE)}
    assert shown["groups"] == {"mailer": rights(GROUP), "no/such": rights(GROUP)}
    assert shown["subscriptions"] == {"x": rights(SUBSCRIPTION)}


def test_blocked_event_type_is_shown_as_one_that_cannot_be_written(scene: Scene) -> None:
    scene.hub.admin.settings.block("PRODUCER_ET", NAME)

    shown = scene.ask("root", f"?event_type={NAME}")

    assert shown["event_types"] == {NAME: rights(EVENT_TYPE, "view", "read", "own", "admin")}


def test_what_is_switched_off_is_a_right_of_administrators_alone(scene: Scene) -> None:
    for feature in ("disable_event_type_creation", "disable_event_type_deletion"):
        scene.hub.admin.settings.switch(feature, on=True)

    for name in ("root", "writer"):
        of_hub = scene.ask(name)["hub"]
        assert isinstance(of_hub, dict)
        assert (of_hub["create"], of_hub["delete"]) == (name == "root", name == "root")


def test_caller_named_by_a_proxy_learns_its_method(scene: Scene) -> None:
    http = TestClient(scene.app, client=(ADDRESS, 1), headers={"X-User": "jane"})

    shown = http.get("/caller").json()

    assert (shown["type"], shown["name"], shown["method"]) == ("user", "jane", "proxy")


def test_caller_without_a_credential_is_refused(scene: Scene) -> None:
    problem_of(TestClient(scene.app, client=("10.0.0.8", 1)).get("/caller"), 401, "unauthenticated")


def test_open_hub_lets_its_callers_do_everything_but_make_tokens(migrated_url: str) -> None:
    hub = open_hub(migrated_url)
    hub.registry.create(an_event_type(NAME))
    with TestClient(HubApp(lambda: hub)) as http:
        shown = http.get(f"/caller?event_type={NAME}").json()

    assert (shown["name"], shown["method"]) == ("unauthenticated", None)
    assert shown["hub"] == {"administer": True, "monitor": True, "create": True, "delete": True, "issue_tokens": False}
    assert shown["event_types"] == {NAME: rights(EVENT_TYPE, *EVENT_TYPE)}


def test_event_types_of_the_hub_itself_are_shown_as_ones_that_cannot_be_written(migrated_url: str) -> None:
    hub = open_hub(migrated_url)
    hub.admin.settings.switch("audit_log_collection", on=True)
    with TestClient(HubApp(lambda: hub)) as http:
        shown = http.get("/caller?event_type=nakadi.audit.log").json()

    assert shown["event_types"]["nakadi.audit.log"]["view"]
    assert not shown["event_types"]["nakadi.audit.log"]["write"]


def test_request_about_too_many_things_is_refused(scene: Scene) -> None:
    token = scene.hub.admin.tokens.create(Caller("service", "root")).secret
    http = TestClient(scene.app, headers={"Authorization": f"Bearer {token}"})

    problem_of(http.get("/caller?" + "&".join(f"group={each}" for each in range(1_001))), 400, "bad-parameter")


@pytest.mark.parametrize("parameter", ["event_type", "subscription", "group"])
def test_name_that_nothing_can_have_is_refused(migrated_url: str, parameter: str) -> None:
    hub = open_hub(migrated_url)
    with TestClient(HubApp(lambda: hub)) as http:
        for name in ("%FF", "%00"):
            problem_of(http.get(f"/caller?{parameter}={name}"), 400, "bad-parameter")
