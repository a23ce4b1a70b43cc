"""The effective schema: the JSON Schema of whole events, metadata included, derived from the owner's schema.

Source: the event type categories of Nakadi (https://nakadi.io/manual.html); see docs/decisions/nakadi-contract.md.
"""

from typing import Final

from penstock.schema.parsing import close_schema, make_loadable
from penstock.schema.traversal import Schema, follow_reference, list_nodes, redirect_references, steps

_UUID: Final = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_TEXT: Final = {"type": "string"}
MOMENT: Final = r"^.{19}(\.[0-9]{1,9})?([zZ]|[-+].{5})$"
"""Limits the fraction of an RFC 3339 `date-time` to nine digits, the precision that readers keep."""
_MOMENT: Final = {"type": "string", "format": "date-time", "pattern": MOMENT}
_DATA_AT: Final = "#/properties/data"
_WHOLE: Final = "#/definitions/penstock.whole"


def metadata_schema(event_type: str, *, compacted: bool) -> Schema:
    """Return the schema of the metadata of business and data events, without the members that only a server writes."""
    properties: Schema = {
        "eid": {"type": "string", "pattern": _UUID},
        "occurred_at": _MOMENT,
        "event_type": {"enum": [event_type]},
        "partition": _TEXT,
        "parent_eids": {"type": "array", "items": {"type": "string", "pattern": _UUID}},
        "flow_id": _TEXT,
        "span_ctx": {"type": "object", "additionalProperties": _TEXT},
    }
    required = ["eid", "occurred_at"]
    if compacted:
        properties["partition_compaction_key"] = {"type": "string", "minLength": 1}
        required.append("partition_compaction_key")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def effective_schema(schema: Schema, *, name: str, category: str, compatible: bool, compacted: bool) -> Schema:
    """Return the schema of whole events; *schema* has passed `check_schema`.

    >>> effective_schema({}, name="t", category="undefined", compatible=False, compacted=False)
    {'type': 'object'}
    """
    own: Schema = make_loadable(schema)
    if compatible:
        own = close_schema(own)
    return _make_whole(own, category, metadata_schema(name, compacted=compacted))


def delivered_schema(schema: Schema, *, name: str, category: str, compacted: bool) -> Schema:
    """Return the schema of whole events as readers get them; *schema* has passed `check_schema`.

    It is open to further members, which later versions of the schema may add. Those of the metadata that the hub writes
    are `readOnly`, a word of draft 7 that validates nothing.

    >>> delivered_schema({}, name="t", category="business", compacted=False)["properties"]["metadata"]["required"]
    ['eid', 'occurred_at']
    """
    metadata = metadata_schema(name, compacted=compacted)
    del metadata["additionalProperties"]
    metadata["properties"] |= {member: each | {"readOnly": True} for member, each in _written_by_hub(name).items()}
    return _make_whole(make_loadable(schema), category, metadata)


def _written_by_hub(name: str) -> Schema:
    return {
        "event_type": {"enum": [name]},
        "partition": _TEXT,
        "received_at": _MOMENT,
        "version": {**_TEXT, "description": "The version of the schema that the event was validated against."},
        "published_by": _TEXT,
    }


def _make_whole(own: Schema, category: str, metadata: Schema) -> Schema:
    """Return the schema of whole events of a *category*, with this schema of their *metadata*."""
    if category == "undefined":
        return {"type": "object"} | own
    dialect = {"$schema": own.pop("$schema")} if "$schema" in own else {}
    return dialect | (_add_metadata(own, metadata) if category == "business" else _data_change_schema(own, metadata))


def _data_change_schema(own: Schema, metadata: Schema) -> Schema:
    """Return the schema of a data change whose member `data` has the schema *own*, and is an object."""
    refers = "$ref" in own  # In draft 4 keywords beside $ref are ignored.
    data = redirect_references(own, lambda reference: _DATA_AT + ("/allOf/0" if refers else "") + reference[1:])
    properties = {
        "metadata": metadata,
        "data_type": _TEXT,
        "data_op": {"enum": ["C", "U", "D", "S"]},
        "data": {"type": "object"} | ({"allOf": [data]} if refers else data),
    }
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _add_metadata(own: Schema, metadata: Schema) -> Schema:
    """Return *own* with the additional property `metadata`."""
    root = follow_reference(own, own)
    if not isinstance(root, dict):
        root = {"not": {}} if root is False else {}
    if any("$ref" in node for _, node in list_nodes(own)):  # References to the root mean the schema without metadata.
        whole, root = (redirect_references(each, lambda reference: _WHOLE + reference[1:]) for each in (own, root))
        root = root | {"definitions": {steps(_WHOLE)[-1]: whole}}
    properties = root.get("properties", {}) | {"metadata": metadata}
    required = [*dict.fromkeys([*root.get("required", []), "metadata"])]  # The owner's schema may require it already.
    return {**root, "type": "object", "properties": properties, "required": required}
