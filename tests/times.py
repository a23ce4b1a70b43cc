"""Shorter times in hubs that a test starts, so that it need not wait for those that hold in production."""

import importlib
import json
import os
from typing import Final

VARIABLE: Final = "TEST_TIMES"
"""The variable of the environment that has the times, as JSON."""
SHORT_LEASE: Final = {
    "penstock.hub.subscriptions.sessions.LEASE_US": 2_500_000,
    "penstock.hub.subscriptions.lease.LEASE_SECONDS": 2.5,
    "penstock.hub.subscriptions.lease.RENEW_INTERVAL": 0.5,
    "penstock.hub.subscriptions.lease.MARGIN_SECONDS": 0.25,
}
"""The sessions of a hub that was killed end after a quarter of the time."""
SHORT_STOP: Final = {
    "penstock.cli.listening.PATIENT_SECONDS": 0.2,
    "penstock.cli.listening.COMMIT_SECONDS": 0.2,
    "penstock.cli.listening.GRACE_SECONDS": 1,
}
"""A hub that is stopped gives up on requests under way at once, in the same order as in production."""

SHORT_DATABASE_WAIT: Final = {
    "penstock.storage.postgres.store.CONNECT_TIMEOUT": 2.0,
    "penstock.storage.sqlite.connection.BUSY_TIMEOUT": 0.5,
}
"""A database that is away or locked is reported sooner."""

SHORT_REPLICA_PAUSE: Final = {
    "penstock.storage.postgres.replicas.CHECK_INTERVAL": 0.1,
    "penstock.storage.postgres.replicas.PAUSE_SECONDS": 0.1,
    "penstock.storage.postgres.replicas.ANSWER_SECONDS": 1.0,
}
"""A replica that fails is soon given up, and soon used again."""


def use_times() -> None:
    """Take the times that the environment has for this process."""
    for name, value in json.loads(os.environ.get(VARIABLE, "{}")).items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
