"""What a definition would do to the event type of its name that a hub has already, and who reads that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.event_type.plan import Plan, planned
from penstock.core.guidelines import WAIVER_PREFIX, Finding
from penstock.core.guidelines.rules import BACKWARD_COMPATIBLE
from penstock.errors import EventTypeNotFound

if TYPE_CHECKING:
    from penstock.client import Client, Compatibility, ConsumerGroup


@dataclass(frozen=True, slots=True)
class Against:
    """What a hub has, and what would become of it."""

    url: str
    plan: Plan
    version: str | None
    """The version of the schema that the hub has; None: it has no such event type."""
    schema: "Compatibility | None"
    """What the change of the schema means; None where it stays."""
    groups: "tuple[ConsumerGroup, ...]"
    """The consumer groups that read it."""
    findings: tuple[Finding, ...]
    """Changes that break readers, although the mode lets them pass."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the hub would refuse it."""
        said = self.schema.error if self.schema and not self.schema.compatible else None
        own = [each for each in self.plan.refused if each != said]
        return (*([said] if said else []), *own)

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


def against(url: str, client: "Client", wanted: Mapping[str, Any]) -> Against:
    """Ask the hub what the valid definition *wanted* would do there; nothing is changed.

    Raises:
        PenstockError: it cannot be asked.
        Failure: it is of a version that this one does not understand.
    """
    name = wanted["name"]
    try:
        registered = client.event_type(name)
    except EventTypeNotFound:
        return Against(url, planned(wanted, None), None, None, (), ())
    plan = planned(wanted, registered)
    schema = client.check_compatibility(name, plan.schemas[1]) if plan.schemas else None
    version = str(registered["schema"]["version"])
    groups = tuple(client.consumer_groups(name))
    return Against(url, plan, version, schema, groups, tuple(_breaking(schema, wanted)) if schema else ())


def _breaking(schema: "Compatibility", wanted: Mapping[str, Any]) -> list[Finding]:
    """Return the changes that no mode but `none` lets pass; the annotation that waives the guideline waives them."""
    reason = ((wanted.get("annotations") or {}).get(WAIVER_PREFIX + BACKWARD_COMPATIBLE.id) or "").strip()
    return [
        Finding(
            BACKWARD_COMPATIBLE, "schema", change.pointer, f"the change breaks readers: {change.says}", reason or None
        )
        for change in schema.changes
        if change.level == "MAJOR" and not change.refused
    ]
