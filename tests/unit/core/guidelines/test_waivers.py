import pytest

from penstock.core.guidelines import GUIDELINES, WAIVER_PREFIX, check
from tests.unit.core.guidelines.definitions import BUSINESS, TEXT, schema

UNOWNED = BUSINESS | {"owning_application": ""}


def test_a_waiver_keeps_the_finding_and_gives_the_reason() -> None:
    [finding] = check(UNOWNED | {"annotations": {"penstock.waiver/ownership": " agreed with the platform "}})

    assert (finding.rule.id, finding.waived) == ("ownership", "agreed with the platform")


def test_a_waiver_is_for_one_guideline_wherever_it_is_broken() -> None:
    fields = schema("business_process_id", "step", business_process_id=TEXT, step=TEXT, email=TEXT, phone=TEXT)
    definition = UNOWNED | {"schema": fields, "annotations": {"penstock.waiver/personal-data": "for the courier"}}

    assert [(each.rule.id, each.waived) for each in check(definition)] == [
        ("ownership", None),
        ("personal-data", "for the courier"),
        ("personal-data", "for the courier"),
    ]


COURIER = "the courier calls"


@pytest.mark.parametrize(
    ("waivers", "reasons"),
    [
        ({"personal-data.phone": COURIER}, [COURIER, None, None]),
        ({"personal-data.stops.contact": COURIER}, [None, None, COURIER]),
        ({"personal-data.stops": COURIER}, [None, COURIER, COURIER]),
        ({"personal-data.stops.contact": COURIER, "personal-data": "else"}, ["else", "else", COURIER]),
        ({"personal-data.phone": " ", "personal-data": "else"}, ["else", "else", "else"]),
    ],
)
def test_waiver_of_a_field_holds_for_that_field_and_what_is_in_it(
    waivers: dict[str, str], reasons: list[str | None]
) -> None:
    stop = {"type": "object", "properties": {"address": TEXT, "contact": {"properties": {"email": TEXT}}}}
    fields = {"business_process_id": TEXT, "step": TEXT, "phone": TEXT, "stops": {"type": "array", "items": stop}}
    annotations = {WAIVER_PREFIX + waiver: reason for waiver, reason in waivers.items()}
    definition = BUSINESS | {"schema": schema("business_process_id", "step", **fields), "annotations": annotations}

    assert [each.waived for each in check(definition) if each.rule.id == "personal-data"] == reasons


@pytest.mark.parametrize(
    ("waiver", "reason", "found"),
    [
        ("ownershp", "x", "there is no guideline 'ownershp'"),
        ("", "x", "there is no guideline ''"),
        ("category", "x", "nothing breaks 'category': it can go"),
        ("personal-data.step", "x", "nothing breaks 'personal-data' at the field 'step': it can go"),
        ("persnal-data.step", "x", "there is no guideline 'persnal-data'"),
    ],
)
def test_a_waiver_that_waives_nothing_is_found(waiver: str, reason: str, found: str) -> None:
    [finding] = check(BUSINESS | {"annotations": {WAIVER_PREFIX + waiver: reason}})

    assert (finding.rule.id, finding.found, finding.waived) == ("waiver", found, None)
    assert finding.pointer == f"#/annotations/penstock.waiver~1{waiver}"


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_waiver_without_a_reason_waives_nothing(reason: str) -> None:
    finding, about_waiver = check(UNOWNED | {"annotations": {"penstock.waiver/ownership": reason}})

    assert (finding.rule.id, finding.waived) == ("ownership", None)
    assert about_waiver.found == "it gives no reason, so nothing is waived"


def test_what_is_for_people_to_judge_can_be_waived_too_and_is_listed() -> None:
    [finding] = check(BUSINESS | {"annotations": {"penstock.waiver/matches-api": "it is computed"}})

    assert (finding.rule.id, finding.waived) == ("matches-api", "it is computed")


def test_other_annotations_are_none_of_its_business() -> None:
    assert check(BUSINESS | {"annotations": {"waiver/ownership": "x", "penstock.waiver": "x", "note": "x"}}) == []


@pytest.mark.parametrize("guideline", GUIDELINES)
def test_the_key_of_a_waiver_keeps_the_rules_for_annotations(guideline: str) -> None:
    prefix, _, name = f"{WAIVER_PREFIX}{guideline}".partition("/")

    assert prefix == "penstock.waiver"
    assert 1 <= len(name) <= 63
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz-")
    assert name[0] != "-" != name[-1]
