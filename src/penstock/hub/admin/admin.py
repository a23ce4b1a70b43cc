"""Administration of one hub: settings, permissions, tokens, sweeping."""

from penstock.hub.admin.permissions import Permissions
from penstock.hub.admin.publishers import Publishers
from penstock.hub.admin.settings import Settings
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.admin.tokens import Tokens


class Admin:
    """Settings, permissions, tokens and sweeping of one hub.

    Attributes:
        settings: administrators, blocked applications and event types, features.
        permissions: decides who may do what.
        tokens: the tokens of callers.
        publishers: who publishes to which event type.
        sweeper: removes what was dropped or has expired.
    """

    def __init__(
        self,
        settings: Settings,
        permissions: Permissions,
        tokens: Tokens,
        publishers: Publishers,
        sweeper: Sweeper,
    ) -> None:
        self.settings = settings
        self.permissions = permissions
        self.tokens = tokens
        self.publishers = publishers
        self.sweeper = sweeper
