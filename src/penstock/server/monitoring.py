"""Monitoring files of the package: alert rules for Prometheus, and a dashboard for Grafana."""

from importlib.resources import files
from typing import Final

from penstock.processing import metrics as processors_metrics

GROUPS: Final = "groups:\n"


def alert_rules(*, processors: bool = False) -> str:
    """Return the content of a file with alert rules for Prometheus, about hubs and their consumers.

    With *processors*, rules about processors follow.
    """
    rules = _read("alerts.yml")
    if not processors:
        return rules
    head, _, groups = processors_metrics.alert_rules().partition(GROUPS)
    assert not head.replace("#", "").strip() or groups, "it begins with comments"
    return f"{rules}\n{groups}"


def dashboard() -> str:
    """Return a dashboard for Grafana, as JSON, about hubs, their consumers and database, and processors."""
    return _read("dashboard.json")


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
