"""What streams of subscriptions are made with."""

from typing import NamedTuple

from penstock.hub.commits import Commits
from penstock.hub.live import Live
from penstock.hub.read import Reader
from penstock.hub.sessions import Sessions
from penstock.hub.watch import Watch
from penstock.storage.store import Store


class Parts(NamedTuple):
    """What the streams of one process share."""

    store: Store
    reader: Reader
    watch: Watch
    live: Live
    sessions: Sessions
    commits: Commits
