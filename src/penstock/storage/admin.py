"""Ports of the settings that operators make, and of the tokens of callers."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, Final, Literal, NamedTuple

import msgspec

from penstock.core.access import Attribute, Caller, Rights
from penstock.storage.statements import SqlRunner

ACCESS: Final = "access"
"""The kind of the setting that every change of rights and tokens replaces."""
COLD: Final = "cold"
"""The kind of the settings that identify the cold tier of the database; hubs make them."""
LOCATION: Final = "location"
"""The URL of the cold tier."""
TIER: Final = "tier"
"""The id of the cold tier."""
FEATURE: Final = "feature"
"""The kind of the settings that switch features."""
ON: Final = "on"
"""The value of settings that are switched on."""
_Lists = Mapping[str, frozenset[Attribute]]
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class StoredToken(NamedTuple):
    """Token of a caller. All times are microseconds since 1970, UTC."""

    id: str
    digest: bytes
    """SHA-256 digest of the secret."""
    caller: Caller
    created_at: int
    expires_at: int | None
    used_at: int | None
    """When it was last used, to within a minute; None: never."""

    def is_valid(self, now: int) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


class Setting(NamedTuple):
    """Setting that an operator has made, identified by kind and name."""

    kind: str
    name: str
    value: str


class SettingRepository:
    """Settings that operators have made.

    A transaction that changes several does so in the order of kind and name, so that no two wait for each other.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def list(self) -> Sequence[Setting]:
        """Return all settings, sorted by kind and name."""
        return sorted(Setting(*row) for row in self._run("settings_all").fetchall())

    def put(self, kind: str, name: str, value: str | None) -> None:
        """Record a setting and replace its value; None deletes it."""
        if value is None:
            self._run("settings_remove", kind=kind, name=name)
        else:
            self._run("settings_put", kind=kind, name=name, value=value)

    def add(self, kind: str, name: str, value: str) -> None:
        """Record a setting, unless it has a value."""
        self._run("settings_add", kind=kind, name=name, value=value)

    def note_access_change(self) -> None:
        """Have every hub read rights and tokens again.

        A transaction calls it last: others that change rights wait for it from then on.
        """
        self.put(ACCESS, "revision", token_hex(8))


class AccessRepository:
    """Tokens of callers, and the rights to event types and subscriptions."""

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run
        self._run_each = sql.run_each

    def list_tokens(self) -> Sequence[StoredToken]:
        """Return all tokens, in the order in which they were created."""
        return [_read_token(row) for row in self._run("tokens_all").fetchall()]

    def insert_token(self, token: StoredToken) -> None:
        """Record a new token."""
        self._run(
            "token_insert",
            id=token.id,
            digest=token.digest,
            data_type=token.caller.data_type,
            application=token.caller.value,
            created_at=token.created_at,
            expires_at=token.expires_at,
        )

    def expire_token(self, id: str, at: int) -> bool:
        """Have a token expire at a time, unless it expires earlier; return whether that changed anything."""
        return self._run("token_expire", id=id, at=at).rowcount > 0

    def delete_token(self, id: str) -> bool:
        """Delete a token; return whether there was one."""
        return self._run("token_delete", id=id).rowcount > 0

    def sweep_tokens(self, before: int) -> int:
        """Delete tokens that expired before a time, and return how many."""
        return self._run("tokens_sweep", before=before).rowcount

    def note_uses(self, uses: Mapping[str, int]) -> None:
        """Record when tokens were last used, by their id."""
        self._run_each("token_used", [(at, token, at) for token, at in sorted(uses.items())])

    def note_publishers(self, uses: Mapping[tuple[str, str], int], forget_before: int) -> None:
        """Record when callers have last published, by event type and caller; forget those who have not for long."""
        self._run("publishers_forget", before=forget_before)
        self._run_each("publisher_seen", [(*which, at) for which, at in sorted(uses.items())])

    def list_publishers(self, event_type: str, since: int) -> Mapping[str, int]:
        """Return who has published to an event type, and when last, by caller."""
        rows = self._run("publishers_list", name=event_type, since=since).fetchall()
        return dict(rows)

    def list_rights(
        self, resources: Literal["event_types", "subscriptions"], decoded: "DecodedLists"
    ) -> Mapping[str, Rights]:
        """Return the rights to each event type, by name, or to each subscription, by id."""
        statement = "rights_of_event_types" if resources == "event_types" else "rights_of_subscriptions"
        rows = self._run(statement).fetchall()
        return {row[0]: Rights(decoded.find(row[1]), row[2]) for row in rows}


class DecodedLists:
    """The lists of each `authorization`, by its JSON: one that was known before is not decoded again.

    Decoding takes ten times as long as reading. It is for one thread at a time.
    """

    def __init__(self, before: "DecodedLists | None" = None) -> None:
        """Take over from *before* what is asked for, so that nothing else is kept."""
        self._before: Mapping[str, _Lists] = {} if before is None else before._known
        self._known: dict[str, _Lists] = {}

    def find(self, text: str | None) -> _Lists | None:
        """Return the lists of an `authorization`; None if it is None."""
        if text is None:
            return None
        lists = self._known.get(text)
        if lists is None:
            lists = self._before.get(text) or Rights.of(_decode(text), None).lists
            assert lists is not None
            self._known[text] = lists
        return lists

    def forget_unused(self) -> None:
        """Forget what was known before and was not asked for."""
        self._before = {}


def _read_token(row: Sequence[Any]) -> StoredToken:
    token, digest, data_type, application, *times = row
    return StoredToken(token, bytes(digest), Caller(data_type, application), *times)
