"""How each process of the demo connects to the hub, and its rights there.

An open hub does not ask for credentials. On a hub that `securing` has secured, each process is a caller of its own,
with a token in a file, and has only the rights that it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.client import Client, TokenFile
from penstock_demo.daily import DAILY
from penstock_demo.dataset import AIRLINES, DEPARTED
from penstock_demo.flagging import FLAGGED

if TYPE_CHECKING:
    from penstock.spark.processors.sources.feeds import SparkFeedSource

OPERATOR: Final = "operator"
"""Creates the event types with their rights: the hub's administrator."""
PUBLISHER: Final = "publisher"
PIPELINE: Final = "pipeline"
"""All that runs on Spark."""
FLAGGER: Final = "flagger"
STRANGER: Final = "stranger"
"""Has a valid token, and is on no list."""
CALLERS: Final = (OPERATOR, PUBLISHER, PIPELINE, FLAGGER, STRANGER)


class Lists(NamedTuple):
    """The callers that may write to an event type, and those that may read it."""

    writers: tuple[str, ...]
    readers: tuple[str, ...]


RIGHTS: Final = {
    DEPARTED: Lists((PUBLISHER,), (PIPELINE, FLAGGER)),
    **{
        event_type: Lists((PUBLISHER,), (PIPELINE,))
        for event_type in (AIRLINES, "flights.airports", "flights.planes", "flights.weather")
    },
    DAILY: Lists((PIPELINE,), (PIPELINE,)),
    FLAGGED: Lists((FLAGGER,), (PIPELINE, FLAGGER)),  # Begun again, it looks for what it has published.
}


def _listed(*names: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name} for name in names]


@dataclass(frozen=True)
class HubAccess:
    """The hub's address, and the files with its callers' tokens; an open hub has none."""

    url: str
    tokens: Mapping[str, Path] = field(default_factory=dict)

    @property
    def is_secured(self) -> bool:
        """Return whether the hub asks for tokens."""
        return bool(self.tokens)

    def protect(self, event_type: str, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what *event_type* is created with: its *definition*, with its `authorization` if the hub asks."""
        if not self.is_secured:
            return definition
        writers, readers = RIGHTS[event_type]
        rights = {"admins": _listed(OPERATOR), "writers": _listed(*writers), "readers": _listed(*readers)}
        return {**definition, "authorization": rights}

    def find_token_file(self, caller: str) -> Path | None:
        """Return the file with the token of *caller*; None: it needs none."""
        return self.tokens[caller] if self.tokens else None

    def find_credential(self, caller: str) -> TokenFile | None:
        """Return what *caller* sends."""
        file = self.find_token_file(caller)
        return None if file is None else TokenFile(file)

    def open_client(self, caller: str) -> Client:
        """Return a client for *caller*."""
        return Client(self.url, auth=self.find_credential(caller))

    def open_source(self, caller: str, event_type: str) -> "SparkFeedSource":
        """Return the feed of *event_type*, as Spark reads it for *caller*."""
        from penstock.spark.processors.sources.feeds import SparkFeedSource

        return SparkFeedSource(self.url, event_type, auth=self.find_credential(caller))

    def make_options(self, caller: str) -> dict[str, str]:
        """Return the options of `format("penstock")` by which *caller* reaches the hub."""
        file = self.find_token_file(caller)
        return {"url": self.url} if file is None else {"url": self.url, "tokenFile": str(file.absolute())}
