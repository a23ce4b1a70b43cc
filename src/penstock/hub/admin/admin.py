"""Administration of one hub: settings, permissions, sweeping."""

from penstock.hub.admin.settings import Permissions, Settings
from penstock.hub.admin.sweeping import Sweeper


class Admin:
    """Settings, permissions and sweeping of one hub.

    Attributes:
        settings: administrators, blocked applications and event types, features.
        permissions: decides who may do what.
        sweeper: removes what was dropped or has expired.
    """

    def __init__(self, settings: Settings, sweeper: Sweeper) -> None:
        self.settings = settings
        self.permissions = Permissions(settings)
        self.sweeper = sweeper
