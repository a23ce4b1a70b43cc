from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.hub import HubCheckpoints, SubscriptionCheckpoints
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.leaseholder import check_leases
from penstock.processing.runners.processor import choose_checkpoints
from penstock.processing.sources.filtered import Filtered
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.processing.together import Transactional

HUB = "http://127.0.0.1:1"


@pytest.fixture
def subscription() -> SubscriptionSource:
    return SubscriptionSource(HUB, "mails")


def handle(*_: Any) -> None:
    """Do nothing."""


def test_positions_are_in_memory_by_default() -> None:
    assert isinstance(choose_checkpoints(handle, None, MemorySource())[0], MemoryCheckpoints)


def test_transaction_keeps_streams_ahead_unless_its_effects_can_be_repeated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    own = DatabaseCheckpoints(url, "mailer")
    for is_idempotent in (True, False):
        handler = Transactional(url, handle, own, is_idempotent=is_idempotent)
        for given in (None, own):
            assert choose_checkpoints(handler, given, MemorySource()) == (own, not is_idempotent)
    with pytest.raises(BadParameter, match="those that Transactional has; it need not be given again"):
        choose_checkpoints(handler, DatabaseCheckpoints(url, "mailer"), MemorySource())


def test_subscription_hears_of_its_own_completed_events(subscription: SubscriptionSource, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    in_database = DatabaseCheckpoints(url, "mailer")
    own, of_another = SubscriptionCheckpoints(subscription), SubscriptionCheckpoints(SubscriptionSource(HUB, "mails"))
    for source in (subscription, Filtered(subscription, kinds=["sent"])):
        found = choose_checkpoints(handle, None, source)[0]
        assert isinstance(found, SubscriptionCheckpoints)
        assert found.source is subscription
        assert choose_checkpoints(handle, own, source) == (own, False)
        for given in (in_database, HubCheckpoints(HUB, "mailer"), MemoryCheckpoints(), of_another):
            told = f"checkpoints is '{type(given).__name__}'; allowed: SubscriptionCheckpoints of the source, or none"
            with pytest.raises(BadParameter, match=told):
                choose_checkpoints(handle, given, source)
        with pytest.raises(
            BadParameter, match="checkpoints is 'DatabaseCheckpoints'; allowed: SubscriptionCheckpoints"
        ):
            choose_checkpoints(Transactional(url, handle, in_database), None, source)
    with pytest.raises(BadParameter, match="leases is 'mailer'; allowed: None: of a subscription the hub shares"):
        check_leases(DatabaseLeases(url, "mailer"), own, Rules())
