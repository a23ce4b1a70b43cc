"""`penstock monitoring`: files for those who watch hubs and processors."""

from typing import Annotated

import typer

from penstock.cli.helping import examples, group

app = group("Print rules for Prometheus and a dashboard for Grafana, for hubs and processors.", no_args_is_help=True)


@app.command(
    epilog=examples(
        "penstock monitoring alerts > penstock-alerts.yml", "penstock monitoring alerts --hub > hub-alerts.yml"
    )
)
def alerts(*, hub: Annotated[bool, typer.Option("--hub", help="Without the rules about processors.")] = False) -> None:
    """Print rules by which Prometheus gives the alarm. Thresholds are there to be changed."""
    from penstock.server.monitoring import alert_rules

    _print(alert_rules(processors=not hub))


@app.command(epilog=examples("penstock monitoring dashboard > penstock-dashboard.json"))
def dashboard() -> None:
    """Print a dashboard, which Grafana imports from a file."""
    from penstock.server.monitoring import dashboard as read_dashboard

    _print(read_dashboard())


def _print(text: str) -> None:
    import sys

    from penstock.cli.streams import utf8

    utf8(sys.stdout).write(text)
