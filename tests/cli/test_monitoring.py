"""`penstock monitoring` prints files that Prometheus and Grafana read."""

import json

import yaml

from penstock.processing.metrics import alert_rules as processor_rules
from penstock.server.monitoring import alert_rules, dashboard
from tests.cli.command import Command


def test_alerts_are_those_of_hubs_and_processors_in_one_file(penstock: Command) -> None:
    both, hub = penstock("monitoring", "alerts").out, penstock("monitoring", "alerts", "--hub").out

    assert hub == alert_rules()
    names = [group["name"] for group in yaml.safe_load(both)["groups"]]
    parts = [yaml.safe_load(part)["groups"] for part in (hub, processor_rules())]
    assert names == [group["name"] for part in parts for group in part]


def test_dashboard_is_json_that_grafana_imports(penstock: Command) -> None:
    printed = penstock("monitoring", "dashboard").out

    assert printed == dashboard()
    assert json.loads(printed)["title"] == "Penstock"
