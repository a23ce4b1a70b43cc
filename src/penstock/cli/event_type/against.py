"""What a definition would do to the event type of its name that a hub has already, and who reads that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.event_type.plan import EventTypePlan, planned, reasons
from penstock.cli.failures import CommandFailure
from penstock.errors import Conflict, EventTypeNotFound, Forbidden, Invalid, NotOffered, TooLarge, WrongAddress
from penstock.schema.guidelines import GuidelineFinding, reason_for
from penstock.schema.guidelines.rules import BACKWARD_COMPATIBLE

if TYPE_CHECKING:
    from penstock.client import Client, Compatibility, ConsumerGroup


@dataclass(frozen=True, slots=True)
class Against:
    """What a hub has, and what would become of it."""

    url: str
    plan: EventTypePlan
    version: str | None
    """The version of the schema that the hub has; None: it has no such event type."""
    schema: "Compatibility | None"
    """What the change of the schema means; None where it stays."""
    groups: "tuple[ConsumerGroup, ...]"
    """The consumer groups that read it."""
    findings: tuple[GuidelineFinding, ...]
    """Changes that break readers, although the mode lets them pass."""
    refused: tuple[str, ...] = ()
    """Why the hub would refuse it."""

    def as_object(self) -> dict[str, Any]:
        """Return it for programs."""
        import msgspec

        partitions: tuple[int, ...] = self.plan.partitions or ()
        return {
            "url": self.url,
            "registered": self.version is not None,
            "steps": self.plan.steps,
            "refused": self.refused,
            "differences": [each.as_object() for each in self.plan.differences],
            "partition_count": dict(zip(("before", "after"), partitions, strict=False)) or None,
            "schema_version": {"before": self.version, "after": self.schema.version if self.schema else self.version},
            "schema": msgspec.to_builtins(self.schema),
            "consumer_groups": msgspec.to_builtins(list(self.groups)),
        }


def against(url: str, client: "Client", wanted: Mapping[str, Any], *, allow_reordering: bool = False) -> Against:
    """Ask the hub what the valid definition *wanted* would do there; nothing is changed.

    Without *allow_reordering* a change is refused that takes from events the order that they have now.

    Raises:
        PenstockError: it cannot be asked.
        CommandFailure: it is of a version that this one does not understand.
    """
    name = wanted["name"]
    try:
        registered = client.event_type(name)
    except EventTypeNotFound:
        plan = planned(wanted, None)
        return Against(url, plan, None, None, (), (), tuple(_refusals(client, plan)))
    plan = planned(wanted, registered, allow_reordering=allow_reordering)
    schema = client.check_compatibility(name, plan.schemas[1]) if plan.schemas else None
    said = [schema.error] if schema and schema.error and not schema.compatible else []
    return Against(
        url,
        plan,
        version=str(registered["schema"]["version"]),
        schema=schema,
        groups=tuple(client.consumer_groups(name)),
        findings=tuple(_breaking(schema, wanted)) if schema else (),
        refused=plan.refused or tuple(said) or tuple(_refusals(client, plan)),
    )


def _refusals(client: "Client", plan: EventTypePlan) -> list[str]:
    """Return what the hub says against the *plan*: it has limits, features and guidelines that nobody else knows."""
    if not plan.steps:
        return []
    more = {"partition_count": plan.partitions[1]} if plan.partitions else {}
    try:
        client.check_definition({**plan.body, **more}, allow_reordering=plan.allow_reordering)
    except WrongAddress as error:
        raise CommandFailure(
            "the hub cannot tell what it would take: is it of another version than this command?"
        ) from error
    except (Invalid, Conflict, Forbidden, NotOffered, TooLarge) as error:
        return list(error.fields.get("broken") or reasons(error))
    return []


def _breaking(schema: "Compatibility", wanted: Mapping[str, Any]) -> list[GuidelineFinding]:
    """Return the changes that no mode but `none` lets pass; the annotation that waives the guideline waives them."""
    annotations = wanted.get("annotations") or {}
    findings = (
        GuidelineFinding(BACKWARD_COMPATIBLE, "schema", change.pointer, f"the change breaks readers: {change.says}")
        for change in schema.changes
        if change.level == "MAJOR" and not change.refused
    )
    return [finding._replace(waived=reason_for(finding, annotations)) for finding in findings]
