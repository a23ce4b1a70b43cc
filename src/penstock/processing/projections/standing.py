"""How far versions of a projection are built, each held against another: which one is behind, and where."""

from collections.abc import Mapping

from penstock.errors import ProjectionBehind
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.position import is_before
from penstock.processing.engine.item import Position


def built_to(checkpoints: Checkpoints) -> Mapping[str, Position]:
    """Return up to where a version is built, by tranche: where rows are parked, no further."""
    found = dict(checkpoints.positions())
    for each in checkpoints.parked():
        at = found.get(each.tranche)
        if at is None or is_before(each.since, at):
            found[each.tranche] = each.since
    return found


def check_built(projection: str, built: Mapping[str, Position], shown: str, there: Mapping[str, Position]) -> None:
    """Check that a version is *built* as far as the one that is *shown* is *there*.

    Raises:
        ProjectionBehind: it is not; says where.
    """
    behind = {
        tranche: f"at {built[tranche]} of {other}" if tranche in built else f"not begun, of {other}"
        for tranche, other in there.items()
        if tranche not in built or is_before(built[tranche], other)
    }
    if behind:
        raise ProjectionBehind(projection=projection, shown=shown, behind=behind)
