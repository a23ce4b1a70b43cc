"""`penstock event-type check`: definitions in files keep the guidelines, and what a hub would make of them."""

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from penstock.schema.guidelines import GUIDELINES
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.port import free_port
from penstock_demo.dataset import EVENT_TYPES
from tests.cli.command import Command, Result

GOOD = """\
name: sales.order-placed
owning_application: shop
category: business
ordering_key_fields: [step]
annotations:
  penstock/process-id-field: order_id
schema:
  type: object
  required: [order_id, step]
  properties:
    order_id: {type: string}
    step: {type: integer}
"""
SELECTOR = "event_owner_selector: {type: static, name: owner, value: ada}\n"
UNOWNED = GOOD.replace("owning_application: shop\n", "")
WAIVED = UNOWNED.replace("annotations:\n", "annotations:\n  penstock.waiver/ownership: agreed with the platform\n")


def check(penstock: Command, text: str, *options: object, name: str = "a.yaml") -> Result:
    (penstock.directory / name).write_text(text, encoding="utf-8")
    return penstock("event-type", "check", name, *options)


def row_of(result: Result, word: str) -> str:
    return next(line for line in result.out.splitlines() if word in line).rstrip()


def test_definition_from_stdin_that_keeps_all_guidelines_passes_without_a_hub(penstock: Command) -> None:
    done = penstock("event-type", "check", "-", stdin=GOOD)

    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[:2] == ["<stdin>:1  sales.order-placed", "  keeps all guidelines that can be checked"]


def test_must_fails_the_check_and_should_and_waiver_do_not(penstock: Command) -> None:
    for text, status, row, end, total in (
        (f"# mine\n{UNOWNED}", 1, "a.yaml:2 MUST ownership", "Set `owning_application`.", "1 MUST and 0 SHOULD"),
        (GOOD.replace("order-placed", "orderPlaced"), 0, "a.yaml:1 SHOULD name-style", ".", "0 MUST and 1 SHOULD"),
        (WAIVED, 0, "a.yaml:1 waived ownership", "agreed with the platform", "0 SHOULD not kept, 1 waived\n"),
    ):
        done = check(penstock, text)

        shown = row_of(done, row.split()[2])
        assert (done.status, shown.split()[:3]) == (status, row.split())
        assert shown.endswith(end)
        assert total in done.out


def test_all_errors_of_a_definition_are_reported_with_their_lines(penstock: Command) -> None:
    wrong = GOOD.replace("category: business", "category: events\npartition_count: many\nlabels: {a: b c}")

    done = check(penstock, wrong.replace("type: object", "type: string"), "-o", "json")

    [event_type] = done.json["event_types"]
    errors = [(each["file"], each["line"], each["reason"].partition(" ")[0]) for each in event_type["errors"]]
    assert done.status == 1
    places = [(3, "category"), (5, "labels[a]"), (4, "partition_count"), (9, "schema.schema")]
    assert errors == [("a.yaml", *place) for place in places]
    assert event_type["errors"][0]["reason"] == 'category must be one of undefined, business, data, not "events"'


def test_unreadable_part_fails_the_check_and_the_rest_is_checked(penstock: Command) -> None:
    done = check(penstock, f"{GOOD}---\nname: a\nname: b\n")
    more = check(penstock, f"- {json.dumps({'name': 'a'})}\n- 7\n", "-o", "json", name="b.yaml")

    assert done.status == more.status == 1
    assert done.out.startswith("a.yaml:15: the key 'name' stands twice, first on line 14\n")
    assert more.json["unreadable"][0]["line"] == 2
    assert [each["name"] for each in more.json["event_types"]] == ["a"]


def test_check_prints_findings_as_json(penstock: Command) -> None:
    done = check(penstock, UNOWNED + "    phone: {type: string}\n", "--output", "json").json

    [event_type] = done.pop("event_types")
    counts = {"errors": 0, "must": 2, "should": 0, "waived": 0}
    assert done.items() >= (counts | {"good": False}).items()
    assert done["unreadable"] == []
    assert (event_type["name"], event_type["file"], event_type["line"]) == ("sales.order-placed", "a.yaml", 1)
    assert event_type["findings"][1] == {
        "guideline": "personal-data",
        "level": "MUST",
        "within": "schema",
        "pointer": "#/properties/phone",
        "file": "a.yaml",
        "line": 12,
        "found": "'phone' seems to hold an e-mail address or a phone number",
        "advice": GUIDELINES["personal-data"].advice,
        "waived": None,
    }


def test_check_prints_sarif_for_code_review(penstock: Command) -> None:
    done = check(penstock, f"{WAIVED}---\nname: b c\n---\n- 7\n", "--output", "sarif")

    log = done.json
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    results = {(each["ruleId"], each["level"]): each for each in run["results"]}
    assert (done.status, log["version"]) == (1, "2.1.0")
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert {rule["id"] for rule in rules} >= GUIDELINES.keys()
    expected = {("name-url-safe", "error"), ("explicit-order", "warning"), ("invalid-definition", "error")}
    assert expected <= results.keys()
    assert [each.get("suppressions") for each in run["results"] if each["ruleId"] == "ownership"] == [
        [{"kind": "inSource", "justification": "agreed with the platform"}],
        None,
    ]
    assert results["ownership", "error"]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a.yaml"},
        "region": {"startLine": 14},
    }


OPENAPI = """\
openapi: 3.0.3
components:
  schemas:
    Order:
      type: object
      required: [order_id, step]
      properties:
        order_id: {type: string, example: o-1}
        step: {type: integer}
        email: {type: string, nullable: true}
"""


def test_findings_in_an_openapi_document_have_their_place_there(penstock: Command) -> None:
    (penstock.directory / "api.yaml").write_text(OPENAPI)
    definition = GOOD.partition("schema:")[0] + "schema: api.yaml#/components/schemas/Order\n"

    [event_type] = check(penstock, definition, "-o", "json").json["event_types"]

    [finding] = event_type["findings"]
    assert (finding["guideline"], finding["pointer"]) == ("personal-data", "#/properties/email")
    assert (finding["file"], finding["line"]) == ("api.yaml", 10)
    assert event_type["left_out"] == ["`example` is left out: api.yaml#/components/schemas/Order/properties/order_id"]
    assert "  `example` is left out: api.yaml#" in check(penstock, definition).out


def test_member_that_is_unknown_or_without_effect_is_a_warning(penstock: Command) -> None:
    text = f"{GOOD}partition_stratgy: hash\noptions:\n  retention_tiem: 1\n{SELECTOR}"

    done, as_json, log = (check(penstock, text, *options) for options in ((), ("-o", "json"), ("-o", "sarif")))

    assert done.status == as_json.status == 0
    assert row_of(done, "partition_stratgy").split()[:2] == ["a.yaml:13", "WARNING"]
    assert row_of(done, "partition_stratgy").endswith("Is it `partition_strategy`?")
    assert "WARNING" in row_of(done, "a.yaml:16") and "event_owner_selector" in row_of(done, "a.yaml:16")
    [event_type] = as_json.json["event_types"]
    assert event_type["unknown_members"] == [
        {"file": "a.yaml", "line": 13, "member": "partition_stratgy", "meant": "partition_strategy"},
        {"file": "a.yaml", "line": 15, "member": "options.retention_tiem", "meant": "options.retention_time"},
    ]
    [found] = event_type["without_effect"]
    assert (found["line"], found["member"]) == (16, "event_owner_selector")
    results = sorted((each["ruleId"], each["level"]) for each in log.json["runs"][0]["results"])
    assert results == [("no-effect", "warning"), ("unknown-member", "warning"), ("unknown-member", "warning")]


def test_member_of_authorization_that_stands_for_no_caller_is_a_warning(penstock: Command) -> None:
    everybody = "[{data_type: '*', value: '*'}]"
    lists = f"authorization:\n  admins: {everybody}\n  readers: {everybody}\n  writers:\n"
    member = "  - {data_type: service, value: 'service:shop'}\n"

    done, wrong = check(penstock, f"{GOOD}{lists}{member}"), check(penstock, f"{GOOD}authorization: 7\n")

    assert done.status == 0
    assert row_of(done, "authorization.writers[0].value").split()[:2] == ["a.yaml:16", "WARNING"]
    assert "'shop'" in done.out
    assert (wrong.status, "Traceback" in wrong.err) == (1, False)


def test_control_characters_of_a_file_are_not_printed(penstock: Command) -> None:
    done = check(penstock, GOOD.replace("sales.order-placed", '"sales\\e[31m"') + '    "phone\\a": {type: string}\n')

    assert done.status == 1
    assert done.out.replace("\n", "").isprintable()


def test_guidelines_are_listed(penstock: Command) -> None:
    shown = penstock("event-type", "guidelines")
    listed = penstock("event-type", "guidelines", "-o", "json").json

    assert {each["id"] for each in listed} == GUIDELINES.keys()
    assert {each["level"] for each in listed} == {"MUST", "SHOULD", "MAY"}
    assert next(each for each in listed if each["id"] == "duplicates")["checked"] is False
    assert all(rule_id in shown.out for rule_id in GUIDELINES)


def test_event_types_of_the_demo_keep_the_guidelines_or_waive_them_with_a_sentence(penstock: Command) -> None:
    files = sorted(EVENT_TYPES.glob("*.yaml"))
    checked = penstock("event-type", "check", *files, "--output", "json")
    departed = (EVENT_TYPES / "flights.departed.yaml").read_text()

    assert checked.status == 0, checked.err
    found = checked.json["event_types"]
    assert [each["name"] for each in found] == [file.stem for file in files]
    assert all(len(finding["waived"] or "") > 20 for each in found for finding in each["findings"])
    broken = departed.replace("penstock/process-id-field: flight_id", "penstock/process-id-field: nothing")
    assert check(penstock, broken).status == 1, "the check looks at it"


# Against a hub


def against(command: Command, hub: LiveHub, text: str) -> tuple[int, dict[str, Any]]:
    """Check *text* against *hub*; return the exit code, and the report on the registered event type."""
    done = check(command, text, "--against", hub.url, "-o", "json")
    return done.status, done.json["event_types"][0]["against"]


@pytest.fixture
def registered(at_hub: Command) -> str:
    """The text of a definition that the shared hub has, under a name of its own."""
    text = GOOD.replace("sales.order-placed", f"sales.{uuid4()}")
    assert at_hub("event-type", "apply", "-", stdin=text).status == 0
    return text


def test_check_against_a_hub_reports_the_effect_of_a_change(database_url: str, penstock: Command) -> None:
    with live_hub(database_url) as hub:
        new, missing = against(penstock, hub, GOOD)
        assert (new, missing["registered"], missing["steps"]) == (0, False, ["create"])

        assert penstock("event-type", "apply", "a.yaml", "--url", hub.url).status == 0
        page = httpx2.get(f"{hub.url}/feeds/sales.order-placed?n=1&cursor0=_first&cursorset=billing")
        assert page.status_code == 200

        grown = GOOD.replace("shop", "till\npartition_count: 4") + "    total: {type: number}\n"
        allowed, change = against(penstock, hub, grown)
        assert (allowed, change["steps"], change["refused"]) == (0, ["replace", "grow"], [])
        assert change["schema_version"] == {"before": "1.0.0", "after": "1.1.0"}
        assert change["partition_count"] == {"before": 1, "after": 4}
        assert change["differences"] == [{"pointer": "#/owning_application", "before": "shop", "after": "till"}]
        assert [(each["rule"], each["consumers"]) for each in change["schema"]["changes"]] == [("property-added", True)]
        assert [group["name"] for group in change["consumer_groups"]] == ["billing"]

        shown = check(penstock, grown, "--against", hub.url).out
        assert "1 -> 4 partitions" in shown
        assert "read by billing (cursorset)" in shown


def test_refused_change_fails_the_check_and_no_change_passes(penstock: Command, hub: LiveHub, registered: str) -> None:
    status, unchanged = against(penstock, hub, registered)
    gone, change = against(penstock, hub, registered.replace("    step: {type: integer}\n", "    step: {}\n"))
    data = registered.replace("business", "data").replace("[step]", "[data.step]")
    shown = check(penstock, data, "--against", hub.url)
    other = check(penstock, registered.replace("shop", "till"), "--against", hub.url)
    log = check(penstock, registered.replace("integer", "string"), "--against", hub.url, "-o", "sarif").json

    assert (status, unchanged["registered"], unchanged["steps"], unchanged["consumer_groups"]) == (0, True, [], [])
    assert (gone, change["refused"]) == (1, ["Invalid schema: #/properties/step: types must be the same"])
    assert change["schema"]["changes"][0]["instead"]
    assert (shown.status, other.status, "it would be changed" in other.out) == (1, 0, True)
    assert "refused: category can change from undefined to business alone, not from business to data" in shown.out
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["refused-change"]


def test_allowed_change_that_breaks_readers_is_a_finding(at_hub: Command, hub: LiveHub, registered: str) -> None:
    anything_goes = registered.replace("category", "compatibility_mode: none\ncategory")
    assert at_hub("event-type", "apply", "-", stdin=anything_goes).status == 0

    changed = anything_goes.replace("    step: {type: integer}\n", "    step: {type: string}\n")
    waiver = "annotations:\n  penstock.waiver/backward-compatible: nobody reads it yet\n"
    broken, _ = against(at_hub, hub, changed)
    done = check(at_hub, changed.replace("annotations:\n", waiver), "--against", hub.url, "-o", "json")

    findings = done.json["event_types"][0]["findings"]
    assert (broken, done.status) == (1, 0)
    assert [(each["guideline"], each["pointer"], each["waived"]) for each in findings] == [
        ("backward-compatible", "#/compatibility_mode", "nobody reads it yet"),
        ("backward-compatible", "#/properties/step", "nobody reads it yet"),
    ]


def test_unreachable_hub_to_check_against_is_named_with_its_option(penstock: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = check(penstock, GOOD, "--against", url)

    assert (done.status, done.out, url in done.err) == (1, "", True)
    assert done.err.splitlines()[1:] == ["  Is the hub running? Name another one with --against, or check without."]
