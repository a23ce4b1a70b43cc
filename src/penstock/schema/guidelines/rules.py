"""The event guidelines, in the order of their source, and findings of definitions that break them.

Guidelines that a definition can show to be broken are checked. The others cannot be checked automatically; they are
listed, so that reviewers have the complete list.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

GuidelineLevel = Literal["MUST", "SHOULD", "MAY"]
Within = Literal["definition", "schema"]

LINE_CHARS_MAX: Final = 400
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_SPACES: Final = re.compile(r"\s+")


class Guideline(NamedTuple):
    """One guideline for the design of event types."""

    id: str
    """Short and stable: waivers and reports name it."""
    level: GuidelineLevel
    asks: str
    """The guideline in one sentence."""
    advice: str
    """How to keep it."""
    source: str
    """The heading of the event guidelines under which it appears."""
    is_checked: bool = True
    """Whether a definition can show that it is broken; otherwise reviewers judge."""


class GuidelineFinding(NamedTuple):
    """A place at which a definition breaks a guideline."""

    rule: Guideline
    within: Within
    pointer: str
    """A JSON pointer into the definition, or into its schema, beginning with `#`."""
    found: str
    """A description of the place: half a sentence."""
    waived: str | None = None
    """The reason for which the guideline is broken on purpose; None: it is not waived."""

    @property
    def advice(self) -> str:
        """How to keep the guideline."""
        return self.rule.advice

    def __str__(self) -> str:
        return f"{self.rule.level} {self.rule.id}: {self.within} {self.pointer}: {self.found}"

    def line(self) -> str:
        """Return the finding as one line for a header, also within quotes: printable ASCII, at most 400 characters.

        >>> from penstock.schema.guidelines.rules import OWNERSHIP
        >>> GuidelineFinding(OWNERSHIP, "definition", "#/owning_application", 'it is "\u00a7"').line()
        "MUST ownership: definition #/owning_application: it is '?'"
        """
        text = _SPACES.sub(" ", str(self)).replace('"', "'").replace("\\", "/")
        text = _UNPRINTABLE.sub("?", text)
        return text if len(text) <= LINE_CHARS_MAX else f"{text[: LINE_CHARS_MAX - 3]}..."


_INTERFACE: Final = "Treat events as part of the service interface"
_RESOURCES: Final = "Ensure that events define useful business resources"
_NAKADI: Final = "Ensure that event types conform to Nakadi's API"
_PERSONAL: Final = "Events must not provide sensitive customer personal data"
_BUSINESS: Final = "Use business events to signal steps and arrival points in business processes"
_DATA: Final = "Use data change events to signal mutations"
_ORDER: Final = "Provide a means for explicit event ordering"
_HASH: Final = "Use the hash partition strategy for data change events"
_API: Final = "Ensure that data change events match API representations"
_OWNER: Final = "Indicate ownership of event types"
_PAYLOAD: Final = "Define event payloads in accordance with the overall guidelines"
_COMPATIBLE: Final = "Maintain backwards compatibility for events"
_ADDITIONAL: Final = "Avoid additionalProperties in event type definitions"
_IDS: Final = "Use unique event identifiers"
_IDEMPOTENT: Final = "Design for idempotent out-of-order processing"
_NAMES: Final = "Follow conventions for event type names"
_DUPLICATES: Final = "Prepare for duplicate events"
_PARTITIONS: Final = "ZeroEventHub: choosing the number of partitions"
_OURS: Final = "Penstock: waivers"


def _for_people(id: str, level: GuidelineLevel, asks: str, advice: str, source: str) -> Guideline:
    return Guideline(id, level, asks, advice, source, is_checked=False)


SERVICE_INTERFACE: Final = _for_people(
    "service-interface", "MUST",
    "Events are part of the service's interface, like its REST API.",
    "Design the event type before you write code that publishes it, and have it reviewed as an API would be.",
    _INTERFACE,
)  # fmt: skip
USEFUL_RESOURCES: Final = _for_people(
    "useful-resources", "MUST",
    "Events describe the resources and business processes of the service's domain, over their whole life cycle.",
    "Name the resource or the process that the events describe; leave out internal details of the service.",
    _RESOURCES,
)  # fmt: skip
CLEAR_NEED: Final = _for_people(
    "clear-need", "MUST",
    "Each event type is needed, and useful to several readers.",
    "Check whether an existing event type covers the need, and whether a reader needs this one.",
    _RESOURCES,
)  # fmt: skip
CATEGORY: Final = Guideline(
    "category", "MUST",
    "The category says whether the events are steps of a business process or changes of data.",
    "Set `category` to `business` or `data`.",
    _NAKADI,
)  # fmt: skip
PAYLOAD_SCHEMA: Final = Guideline(
    "payload-schema", "MUST",
    "The event type has a schema that defines the fields of its events.",
    "Describe the fields of the events under `properties`.",
    _NAKADI,
)  # fmt: skip
PAYLOAD_ONLY: Final = Guideline(
    "payload-only", "MUST",
    "The schema describes the service's own part of the events; the category adds the rest.",
    "Remove `metadata`, `data_type` and `data_op` from the schema: the category adds them.",
    _NAKADI,
)  # fmt: skip
JSON_SCHEMA: Final = Guideline(
    "json-schema", "MUST",
    "The schema is a JSON Schema; OpenAPI's extensions have no effect.",
    "Express it in JSON Schema (`nullable` is the additional type `null`), or remove it.",
    _NAKADI,
)  # fmt: skip
PERSONAL_DATA: Final = Guideline(
    "personal-data", "MUST",
    "Events contain no personal data, such as names, addresses and account numbers, unless it is necessary.",
    "Publish an id with which authorized readers can request the data. If the field is needed, or holds no personal "
    "data, waive this for the field and give the reason.",
    _PERSONAL,
)  # fmt: skip
PERSONAL_DATA_ACCESS: Final = _for_people(
    "personal-data-access", "MUST",
    "If events contain personal data, few readers have access, and the data is protected.",
    "Set `authorization`, and agree with your data protection officer on the readers and the retention.",
    _PERSONAL,
)  # fmt: skip
BUSINESS_CATEGORY: Final = Guideline(
    "business-category", "MUST",
    "Events that are steps of a business process have the category `business`.",
    "Set `category` to `business`, and remove `metadata` from the schema.",
    _BUSINESS,
)  # fmt: skip
PROCESS_ID: Final = Guideline(
    "process-id", "MUST",
    "Every business event contains the id of its business process.",
    "Add a required field such as `business_process_id`, or name yours in the annotation `penstock/process-id-field`.",
    _BUSINESS,
)  # fmt: skip
PROCESS_ORDER: Final = Guideline(
    "process-order", "MUST",
    "Business events contain a field that orders the events of one process.",
    "Name a required, increasing field in `ordering_key_fields`, or `metadata.parent_eids` if you set it.",
    _BUSINESS,
)  # fmt: skip
NEW_INFORMATION: Final = _for_people(
    "new-information", "MUST",
    "A business event contains only the information that is new at its step.",
    "Leave out information that earlier events of the process contain.",
    _BUSINESS,
)  # fmt: skip
PROCESS_START: Final = _for_people(
    "process-start", "MUST",
    "The first event of a process contains all relevant context.",
    "Include everything that a reader of the process needs, so that no further requests are necessary.",
    _BUSINESS,
)  # fmt: skip
RELIABLE_PUBLISHING: Final = _for_people(
    "reliable-publishing", "MUST",
    "Business events and data changes are published reliably: none is lost, none describes a rolled-back change.",
    "Publish through the outbox, in the transaction that makes the change.",
    f"{_BUSINESS}; {_DATA}",
)  # fmt: skip
PROCESS_SHAPE: Final = _for_people(
    "process-shape", "MAY",
    "The steps of a process are distinguished by a field of one event type, or by separate event types.",
    "Choose one of the two for the whole process.",
    _BUSINESS,
)  # fmt: skip
DATA_CATEGORY: Final = Guideline(
    "data-category", "MUST",
    "Events about created, updated or deleted records have the category `data`.",
    "Set `category` to `data`, and let the schema describe the record: the category adds `data_type` and `data_op`.",
    _DATA,
)  # fmt: skip
ENTITY_KEY: Final = Guideline(
    "entity-key", "MUST",
    "Every data change identifies the changed entity.",
    "Add a required field such as `id`, or name yours in the annotation `penstock/entity-key-fields`.",
    _DATA,
)  # fmt: skip
ENTITY_ORDER: Final = Guideline(
    "entity-order", "SHOULD",
    "Data changes contain a field that orders the changes of one entity.",
    "Name a required field that increases with every change, such as the row's version, in `ordering_key_fields`.",
    _DATA,
)  # fmt: skip
EXPLICIT_ORDER: Final = Guideline(
    "explicit-order", "SHOULD",
    "Events contain a field by which readers can restore their order.",
    "Name a required, increasing field, such as a version or a counter, in `ordering_key_fields`.",
    _ORDER,
)  # fmt: skip
ORDER_NOT_BY_TIME: Final = Guideline(
    "order-not-by-time", "SHOULD",
    "Events are not ordered by the time of a clock: clocks differ, jump, and are too coarse.",
    "Order by a version or a counter; waive this if the time is certain to increase.",
    _ORDER,
)  # fmt: skip
HASH_PARTITIONING: Final = Guideline(
    "hash-partitioning", "SHOULD",
    "Data changes are partitioned by hash, so that the changes of one entity stay in order.",
    "Set `partition_strategy` to `hash`, and `partition_key_fields` to the fields that identify the entity.",
    _HASH,
)  # fmt: skip
HASH_BY_ENTITY: Final = Guideline(
    "hash-by-entity", "SHOULD",
    "The partition key identifies the entity, never the single event or its time.",
    "Set `partition_key_fields` to the fields that identify the entity.",
    _HASH,
)  # fmt: skip
KEY_FIELDS_DEFINED: Final = Guideline(
    "key-fields-defined", "SHOULD",
    "The fields of the partition key are in every event: an event without them cannot be published.",
    "Define the field in the schema, and make it required.",
    _HASH,
)  # fmt: skip
MATCHES_API: Final = _for_people(
    "matches-api", "SHOULD",
    "A data change shows the entity as the service's REST API does.",
    "Publish the API's representation, unless it is aggregated, computed, or very different from the stored form.",
    _API,
)  # fmt: skip
INTERESTING_CHANGES: Final = _for_people(
    "interesting-changes", "SHOULD",
    "Published changes matter in the domain, and reveal no internals of the service.",
    "Leave out changes and fields that only the service itself uses.",
    _API,
)  # fmt: skip
OWNERSHIP: Final = Guideline(
    "ownership", "MUST",
    "The event type names the application that owns it.",
    "Set `owning_application`.",
    _OWNER,
)  # fmt: skip
API_GUIDELINES: Final = _for_people(
    "api-guidelines", "MUST",
    "Events follow the same guidelines as the rest of the API: names, formats, units, languages, money.",
    "Check the schema against your API guidelines, and use the terms of the API.",
    _PAYLOAD,
)  # fmt: skip
BACKWARD_COMPATIBLE: Final = Guideline(
    "backward-compatible", "MUST",
    "The event type changes only in ways that do not break its readers.",
    "Set `compatibility_mode` to `compatible` or `forward`; create another event type for incompatible events.",
    _COMPATIBLE,
)  # fmt: skip
NO_REDEFINITION: Final = _for_people(
    "no-redefinition", "MUST",
    "A new field does not change the meaning of existing fields.",
    "Put new information into a new field, so that readers that do not know it still understand the rest.",
    _COMPATIBLE,
)  # fmt: skip
ADDITIONAL_PROPERTIES: Final = Guideline(
    "additional-properties", "SHOULD",
    "The schema does not use `additionalProperties`: if true, any field can appear; if false, no field can be added.",
    "Remove it, and define each field by name before it is published.",
    _ADDITIONAL,
)  # fmt: skip
DEFINE_FIRST: Final = _for_people(
    "define-first", "MUST",
    "A field is in the schema before it is in an event.",
    "Apply the new schema first, then publish; the mode `compatible` refuses fields that the schema does not name.",
    _ADDITIONAL,
)  # fmt: skip
IGNORE_UNKNOWN: Final = _for_people(
    "ignore-unknown", "MUST",
    "Readers ignore unknown fields.",
    "Do not validate strictly when you read, since schemas get new fields at any time.",
    _ADDITIONAL,
)  # fmt: skip
UNIQUE_IDS: Final = Guideline(
    "unique-ids", "MUST",
    "Every event has a unique id, by which readers recognise duplicates.",
    "Use the category `business` or `data`, whose `metadata.eid` is one, or require a field such as `event_id`; "
    "set it to a new UUID once per event, and keep it when the event is sent again.",
    _IDS,
)  # fmt: skip
OUT_OF_ORDER: Final = _for_people(
    "out-of-order", "SHOULD",
    "Events can be handled twice and out of order: their content does not depend on earlier events.",
    "Include the resource's id, state and version instead of a difference.",
    _IDEMPOTENT,
)  # fmt: skip
NAME_URL_SAFE: Final = Guideline(
    "name-url-safe", "MUST",
    "The name needs no escaping in a URL.",
    "Use letters of a-z, digits, hyphens, underscores and periods.",
    _NAMES,
)  # fmt: skip
NAME_STYLE: Final = Guideline(
    "name-style", "SHOULD",
    "The name consists of lower-case words and numbers, separated by hyphens, underscores or periods.",
    "Use a name like `sales.order-placed`.",
    _NAMES,
)  # fmt: skip
DUPLICATES: Final = _for_people(
    "duplicates", "MUST",
    "Readers tolerate duplicate events.",
    "Store the results of a page together with its cursors, or remember the ids of events.",
    _DUPLICATES,
)  # fmt: skip
PARTITION_COUNT: Final = Guideline(
    "partition-count", "SHOULD",
    "The number of partitions is a power of two, so that readers can halve and double it.",
    "Use 1, 2, 4, 8, 16 …",
    _PARTITIONS,
)  # fmt: skip
WAIVER: Final = Guideline(
    "waiver", "SHOULD",
    "A waiver names a guideline that is broken, and gives the reason.",
    "Write `penstock.waiver/<guideline>: <reason>`, and remove waivers that are no longer needed.",
    _OURS,
)  # fmt: skip

GUIDELINES: Final[Mapping[str, Guideline]] = {
    rule.id: rule for rule in list(globals().values()) if isinstance(rule, Guideline)
}
"""All of them by their ids, in the order of the page from which they come."""
