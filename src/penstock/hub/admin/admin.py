"""Administration of one hub: settings, permissions, sweeping, diagnosis."""

from collections.abc import Sequence

from penstock.hub.admin.settings import Permissions, Settings
from penstock.hub.admin.sweeping import Sweeper
from penstock.storage.store import DoctorFinding, Store


class Admin:
    """Settings, permissions, sweeping and diagnosis of one hub.

    Attributes:
        settings: administrators, blocked applications and event types, features.
        permissions: decides who may do what.
        sweeper: removes what was dropped or has expired.
    """

    def __init__(self, store: Store, settings: Settings, sweeper: Sweeper) -> None:
        self._store = store
        self.settings = settings
        self.permissions = Permissions(settings)
        self.sweeper = sweeper

    def doctor(self) -> Sequence[DoctorFinding]:
        """Diagnose the database: see `Store.doctor`."""
        return self._store.doctor()
