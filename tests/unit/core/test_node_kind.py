from typing import Any

import pytest

from penstock.core.node_kind import EMPTY, REFERENCE, kind_of, node_of


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({}, EMPTY),
        ({"title": "t", "minLength": 0}, EMPTY),
        ({"type": "string"}, "string"),
        ({"type": ["string"]}, "string"),
        ({"type": ["string", "null"]}, ("null", "string")),
        ({"required": []}, "object"),
        ({"propertyNames": {"minLength": 1}}, "object"),
        ({"uniqueItems": True}, "array"),
        ({"uniqueItems": False, "maximum": 1}, "number"),
        ({"format": "date"}, "string"),
        ({"enum": [1]}, "values"),
        ({"$ref": "#", "type": "object"}, REFERENCE),
        ({"anyOf": [{}], "type": "string"}, ("combined", "string")),
        ({"oneOf": [{}]}, ("combined", EMPTY)),
    ],
    ids=str,
)
def test_a_node_has_a_kind_by_its_type_or_its_keywords(node: dict[str, Any], kind: object) -> None:
    assert kind_of(node) == kind


def test_true_and_false_are_nodes_too() -> None:
    assert [node_of(each) for each in (True, False, {"type": "null"})] == [{}, {"not": {}}, {"type": "null"}]
