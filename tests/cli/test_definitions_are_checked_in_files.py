"""`penstock event-type check`, with real files, and its exit codes."""

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from penstock.core.guidelines import GUIDELINES
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.port import free_port
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
UNOWNED = GOOD.replace("owning_application: shop\n", "")
WAIVED = UNOWNED.replace("annotations:\n", "annotations:\n  penstock.waiver/ownership: agreed with the platform\n")


def check(penstock: Command, text: str, *options: object, name: str = "a.yaml") -> Result:
    (penstock.directory / name).write_text(text, encoding="utf-8")
    return penstock("event-type", "check", name, *options)


def test_what_keeps_all_guidelines_passes_without_a_hub(penstock: Command) -> None:
    done = check(penstock, GOOD)

    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "a.yaml:1  sales.order-placed",
        "  keeps all guidelines that can be checked",
        "1 event type, 0 errors, 0 MUST and 0 SHOULD not kept, 0 waived",
    ]


def test_a_must_fails_the_check_and_says_where_and_what_to_do(penstock: Command) -> None:
    done = check(penstock, f"# mine\n{UNOWNED}")

    row = next(line for line in done.out.splitlines() if "ownership" in line)
    assert done.status == 1
    assert row.split()[:3] == ["a.yaml:2", "MUST", "ownership"]
    assert row.rstrip().endswith("Set `owning_application`.")
    assert "1 MUST and 0 SHOULD not kept" in done.out


def test_a_should_does_not_fail_it(penstock: Command) -> None:
    done = check(penstock, GOOD.replace("sales.order-placed", "sales.orderPlaced"))

    assert done.status == 0
    assert "name-style" in done.out
    assert "0 MUST and 1 SHOULD not kept" in done.out


def test_what_is_waived_is_listed_and_does_not_fail_it(penstock: Command) -> None:
    done = check(penstock, WAIVED)

    row = next(line for line in done.out.splitlines() if "ownership" in line)
    assert done.status == 0
    assert row.split()[1] == "waived"
    assert row.rstrip().endswith("agreed with the platform")
    assert done.out.endswith("1 event type, 0 errors, 0 MUST and 0 SHOULD not kept, 1 waived\n")


def test_a_definition_that_no_hub_takes_fails_it_with_its_line(penstock: Command) -> None:
    done = check(penstock, GOOD.replace("category: business", "category: events"), "-o", "json")

    [event_type] = done.json["event_types"]
    assert done.status == 1
    assert event_type["errors"] == [
        {"file": "a.yaml", "line": 3, "reason": 'category must be one of undefined, business, data, not "events"'}
    ]


def test_a_name_that_is_taken_twice_fails_it(penstock: Command) -> None:
    (penstock.directory / "b.yaml").write_text(f"\n{GOOD}")

    done = check(penstock, GOOD, "b.yaml", "-o", "json")

    assert done.status == 1
    assert [error["reason"] for each in done.json["event_types"] for error in each["errors"]] == [
        "'sales.order-placed' is defined twice, first at a.yaml:1"
    ]


def test_what_cannot_be_read_fails_it_and_the_rest_is_checked(penstock: Command) -> None:
    done = check(penstock, f"{GOOD}---\nname: a\nname: b\n")
    more = check(penstock, f"- {json.dumps({'name': 'a'})}\n- 7\n", "-o", "json", name="b.yaml")

    assert done.status == more.status == 1
    assert done.out.startswith("a.yaml:15: the key 'name' stands twice, first on line 14\n")
    assert more.json["unreadable"][0]["line"] == 2
    assert [each["name"] for each in more.json["event_types"]] == ["a"]


def test_programs_get_json(penstock: Command) -> None:
    done = check(penstock, UNOWNED + "    phone: {type: string}\n", "--output", "json")

    assert {key: done.json[key] for key in ("good", "errors", "must", "should", "waived", "unreadable")} == {
        "good": False,
        "errors": 0,
        "must": 2,
        "should": 0,
        "waived": 0,
        "unreadable": [],
    }
    [event_type] = done.json["event_types"]
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


def test_code_review_gets_sarif(penstock: Command) -> None:
    done = check(penstock, f"{WAIVED}---\nname: b c\n---\n- 7\n", "--output", "sarif")

    log = done.json
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    results = {(each["ruleId"], each["level"]): each for each in run["results"]}
    assert done.status == 1
    assert log["version"] == "2.1.0"
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert {rule["id"] for rule in rules} >= GUIDELINES.keys()
    waived = results["ownership", "error"]
    assert {
        ("name-url-safe", "error"),
        ("explicit-order", "warning"),
        ("invalid-definition", "error"),
    } <= results.keys()
    assert [each.get("suppressions") for each in run["results"] if each["ruleId"] == "ownership"] == [
        [{"kind": "inSource", "justification": "agreed with the platform"}],
        None,
    ]
    assert waived["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a.yaml"},
        "region": {"startLine": 14},
    }


def test_a_schema_from_an_openapi_document_is_checked_where_it_stands(penstock: Command) -> None:
    document = {
        "openapi": "3.0.3",
        "components": {
            "schemas": {
                "Order": {
                    "type": "object",
                    "required": ["order_id", "step"],
                    "properties": {
                        "order_id": {"type": "string", "example": "o-1"},
                        "step": {"type": "integer"},
                        "customer": {"$ref": "#/components/schemas/Customer"},
                    },
                },
                "Customer": {"type": "object", "properties": {"email": {"type": "string", "nullable": True}}},
            }
        },
    }
    (penstock.directory / "api.json").write_text(json.dumps(document, indent=1))
    definition = GOOD.partition("schema:")[0] + "schema: api.json#/components/schemas/Order\n"

    done = check(penstock, definition, "-o", "json")
    told = check(penstock, definition)

    [event_type] = done.json["event_types"]
    [finding] = event_type["findings"]
    lines = (penstock.directory / "api.json").read_text().splitlines()
    assert (finding["guideline"], finding["pointer"]) == ("personal-data", "#/definitions/Customer/properties/email")
    assert finding["file"] == "api.json"
    assert '"email"' in lines[finding["line"] - 1]
    assert event_type["left_out"] == ["`example` is left out: api.json#/components/schemas/Order/properties/order_id"]
    assert "  `example` is left out: api.json#" in told.out


def test_a_member_that_means_nothing_is_told_with_what_was_meant(penstock: Command) -> None:
    misspelt = f"{GOOD}partition_stratgy: hash\noptions:\n  retention_tiem: 1\n"

    done = check(penstock, misspelt)
    listed = check(penstock, misspelt, "-o", "json")
    log = check(penstock, misspelt, "-o", "sarif").json

    row = next(line for line in done.out.splitlines() if "partition_stratgy" in line)
    assert done.status == listed.status == 0
    assert row.split()[:2] == ["a.yaml:13", "WARNING"]
    assert row.rstrip().endswith("Is it `partition_strategy`?")
    assert listed.json["event_types"][0]["unknown_members"] == [
        {"file": "a.yaml", "line": 13, "member": "partition_stratgy", "meant": "partition_strategy"},
        {"file": "a.yaml", "line": 15, "member": "options.retention_tiem", "meant": "options.retention_time"},
    ]
    assert [(each["ruleId"], each["level"]) for each in log["runs"][0]["results"]] == [
        ("unknown-member", "warning")
    ] * 2


def test_member_without_effect_is_told_with_its_line(penstock: Command) -> None:
    retained = f"{GOOD}options:\n  retention_time: 86400000\n"

    done = check(penstock, retained)
    listed = check(penstock, retained, "-o", "json")
    log = check(penstock, retained, "-o", "sarif").json

    row = next(line for line in done.out.splitlines() if "retention_time" in line)
    assert done.status == listed.status == 0
    assert row.split()[:2] == ["a.yaml:14", "WARNING"]
    [found] = listed.json["event_types"][0]["without_effect"]
    assert (found["line"], found["member"]) == (14, "options.retention_time")
    assert [(each["ruleId"], each["level"]) for each in log["runs"][0]["results"]] == [("no-effect", "warning")]


def test_all_that_is_wrong_with_a_definition_is_told_at_once(penstock: Command) -> None:
    wrong = GOOD.replace("category: business", "category: events\npartition_count: many\nlabels: {a: b c}")

    done = check(penstock, wrong.replace("type: object", "type: string"), "-o", "json")

    [event_type] = done.json["event_types"]
    told = [(each["line"], each["reason"].partition(" ")[0]) for each in event_type["errors"]]
    assert told == [(3, "category"), (5, "labels[a]"), (4, "partition_count"), (9, "schema.schema")]


def test_stdin_is_checked_too(penstock: Command) -> None:
    done = penstock("event-type", "check", "-", given=GOOD)

    assert done.status == 0
    assert done.out.startswith("<stdin>:1  sales.order-placed\n")


def test_a_file_that_is_not_there_is_wrong_usage(penstock: Command) -> None:
    missing = penstock("event-type", "check", "none.yaml", COLUMNS="200")
    directory = penstock("event-type", "check", ".", COLUMNS="200")
    nothing = penstock("event-type", "check")

    assert missing.status == directory.status == nothing.status == 2
    assert "none.yaml cannot be read: No such file or directory" in missing.err
    assert ". cannot be read: Is a directory" in directory.err
    assert "Missing argument 'FILE" in nothing.err


def test_nothing_in_a_file_commands_a_terminal(penstock: Command) -> None:
    done = check(penstock, GOOD.replace("sales.order-placed", '"sales\\e[31m"') + '    "phone\\a": {type: string}\n')

    assert done.status == 1
    assert done.out.replace("\n", "").isprintable()


def test_guidelines_are_listed(penstock: Command) -> None:
    told = penstock("event-type", "guidelines")
    listed = penstock("event-type", "guidelines", "-o", "json").json

    assert {each["id"] for each in listed} == GUIDELINES.keys()
    assert {each["level"] for each in listed} == {"MUST", "SHOULD", "MAY"}
    assert next(each for each in listed if each["id"] == "duplicates")["checked"] is False
    assert all(rule_id in told.out for rule_id in GUIDELINES)


# Against a hub


def against(command: Command, hub: LiveHub, text: str) -> tuple[int, dict[str, Any]]:
    """Check *text* against *hub*; return the exit code, and what it says of the registered event type."""
    done = check(command, text, "--against", hub.url, "-o", "json")
    return done.status, done.json["event_types"][0]["against"]


def test_what_a_change_would_do_is_told(database_url: str, penstock: Command) -> None:
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

        told = check(penstock, grown, "--against", hub.url).out
        assert "schema 1.0.0 -> 1.1.0: consumers can stay as they are, look at what producers do" in told
        assert "1 -> 4 partitions" in told
        assert "read by billing (cursorset)" in told


@pytest.fixture
def registered(at_hub: Command) -> str:
    """The text of a definition that the shared hub has, under a name of its own."""
    text = GOOD.replace("sales.order-placed", f"sales.{uuid4()}")
    assert at_hub("event-type", "apply", "-", given=text).status == 0
    return text


def test_what_is_so_already_passes(penstock: Command, hub: LiveHub, registered: str) -> None:
    status, change = against(penstock, hub, registered)

    assert (status, change["registered"], change["steps"], change["consumer_groups"]) == (0, True, [], [])


def test_who_changes_the_mode_with_the_schema_is_told_to_do_one_after_the_other(
    penstock: Command, at_hub: Command, hub: LiveHub, registered: str
) -> None:
    free = registered.replace("name: ", "compatibility_mode: none\nname: ", 1)
    freed = free.replace("    step: {type: integer}\n", "    step: {type: string}\n")

    _, change = against(penstock, hub, freed)

    said = "judges this: change `compatibility_mode` to none by itself first, and the schema then"
    assert [each.endswith(said) for each in change["refused"]] == [True]
    assert said in at_hub("event-type", "apply", "-", given=freed).err
    assert at_hub("event-type", "apply", "-", given=free).status == 0
    assert against(penstock, hub, freed)[1]["refused"] == []


def test_what_would_be_refused_fails_the_check(penstock: Command, hub: LiveHub, registered: str) -> None:
    gone, change = against(penstock, hub, registered.replace("    step: {type: integer}\n", "    step: {}\n"))
    told = check(
        penstock, registered.replace("business", "data").replace("[step]", "[data.step]"), "--against", hub.url
    )
    log = check(penstock, registered.replace("integer", "string"), "--against", hub.url, "-o", "sarif").json

    assert (gone, change["refused"]) == (1, ["Invalid schema: #/properties/step: types must be the same"])
    assert change["schema"]["changes"][0]["instead"]
    assert told.status == 1
    assert "refused: category can change from undefined to business alone, not from business to data" in told.out
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["refused-change"]


def test_removal_that_the_guidelines_call_compatible_passes_where_the_event_type_goes_by_their_list(
    at_hub: Command, hub: LiveHub, registered: str
) -> None:
    optional = "    note: {type: string}\n    state: {enum: [a, b]}\n"
    consumers = registered.replace("category", "options: {evolution: consumers}\ncategory") + optional
    assert at_hub("event-type", "apply", "-", given=registered + optional).status == 0

    refused, _ = against(at_hub, hub, registered + "    state: {enum: [a]}\n")
    assert at_hub("event-type", "apply", "-", given=consumers).status == 0
    less = consumers.replace(optional, "    state: {enum: [a]}\n")
    status, change = against(at_hub, hub, less)
    told = check(at_hub, less, "--against", hub.url).out

    assert (refused, status, change["refused"]) == (1, 0, [])
    assert change["schema"]["evolution"] == "consumers"
    assert [(each["rule"], each["level"], each["refused"]) for each in change["schema"]["changes"]] == [
        ("property-removed", "MINOR", False),
        ("enum", "MINOR", False),
    ]
    assert "an optional property was removed: compatible for consumers by the event guidelines" in told
    assert at_hub("event-type", "apply", "-", given=less).status == 0


def test_what_breaks_readers_though_it_is_allowed_is_a_finding(at_hub: Command, hub: LiveHub, registered: str) -> None:
    anything_goes = registered.replace("category", "compatibility_mode: none\ncategory")
    assert at_hub("event-type", "apply", "-", given=anything_goes).status == 0

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


def test_a_hub_that_is_not_there_is_named(penstock: Command) -> None:
    failed = check(penstock, GOOD, "--against", "http://127.0.0.1:9")
    wrong = check(penstock, GOOD, "--against", "localhost:8080")

    assert (failed.status, wrong.status) == (1, 2)
    assert "http://127.0.0.1:9" in failed.err


def test_a_hub_to_check_against_that_is_not_there_is_told_by_the_option_that_named_it(penstock: Command) -> None:
    done = check(penstock, GOOD, "--against", f"http://127.0.0.1:{free_port()}")

    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines()[1:] == ["  Is the hub running? Name another one with --against, or check without."]


@pytest.mark.parametrize("url", ["localhost:8080", "http://", "http://localhost:port"])
def test_an_address_to_check_against_that_is_none_is_told_by_its_option(penstock: Command, url: str) -> None:
    done = check(penstock, GOOD, "--against", url)

    assert done.status == 2
    assert "Invalid value for '--against'" in done.err
