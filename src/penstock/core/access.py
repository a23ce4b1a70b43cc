"""Access control: callers, the lists of an `authorization`, and the rule that grants permissions.

Source: Nakadi's authorization, https://nakadi.io/manual.html#using_authorization.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

Permission = Literal["view", "read", "write", "own", "admin", "create", "monitor", "administer"]
"""An operation: view a resource, read or write events, delete or move the caller's own groups, change or create a
resource, monitor or administer the hub. `GET /caller` lists what a caller has of them (`server/caller.py`)."""

WILDCARD: Final = "*"
"""Data type and value of a list member that stands for every caller."""
LISTS: Final = ("admins", "readers", "writers")


class Attribute(msgspec.Struct, frozen=True, order=True):
    """A member of a list, in Nakadi's shape: `{"data_type": "service", "value": "billing"}`."""

    data_type: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "Attribute":
        """Return the attribute that *text* names, as `DATA_TYPE:VALUE`.

        Raises:
            ValueError: *text* does not have this form.

        >>> Attribute.parse("user:jane")
        Attribute(data_type='user', value='jane')
        """
        data_type, colon, value = text.partition(":")
        if not (data_type and colon and value):
            raise ValueError(f"must have the form DATA_TYPE:VALUE, such as user:jane, not {text!r}")
        return cls(data_type, value)

    def __str__(self) -> str:
        return f"{self.data_type}:{self.value}"


Caller = Attribute
"""The sender of a request, a service or a user; it has the form of a list member."""

CALLER_CHARS_MAX: Final = 255


def is_caller_name(value: str) -> bool:
    """Return whether *value* can name a caller.

    `*` and `unauthenticated` stand for every caller; control characters would garble log lines.

    >>> [is_caller_name(each) for each in ("billing", "*", "unauthenticated", "", " billing")]
    [True, False, False, False, False]
    """
    is_whole = 0 < len(value) <= CALLER_CHARS_MAX and value.isprintable() and value.strip() == value
    return is_whole and value not in (WILDCARD, UNAUTHENTICATED.value)


def find_typed_name(value: str) -> str | None:
    """Return the name in *value* without the type of a caller before it; None if it has none.

    >>> [find_typed_name(each) for each in ("user:jane", "jane", "spiffe://shop", "a:b:c")]
    ['jane', None, None, None]
    """
    _, colon, name = value.partition(":")
    return name if colon and ":" not in name and not name.startswith("//") else None


def find_wrong_members(lists: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each list of an `authorization` that means nothing, and each member that stands for no caller, and why.

    Those that are malformed are left out: see `DefinitionReader.read_authorization`.

    >>> dict(find_wrong_members({"reader": [], "readers": [{"data_type": "team", "value": "a"}]}))
    {'reader': 'is no list: those are admins, readers, writers', 'readers[0].data_type': "must be service, user, or * with the value *, not 'team'"}
    >>> dict(find_wrong_members({"admins": [{"data_type": "service", "value": "service:billing"}]}))
    {'admins[0].value': "must be the name alone, 'billing', since data_type has the type"}
    """  # noqa: E501 - an answer of Python's is one line
    for name, members in lists.items():
        if name not in LISTS:
            yield name, f"is no list: those are {', '.join(LISTS)}"
        for number, member in enumerate(members if isinstance(members, list) else ()):
            data_type, value = (member.get(each) if isinstance(member, dict) else None for each in _MEMBERS)
            if isinstance(data_type, str) and isinstance(value, str) and (wrong := _find_wrong(data_type, value)):
                yield f"{name}[{number}].{wrong[0]}", wrong[1]


_MEMBERS: Final = ("data_type", "value")
_TYPES: Final = ("service", "user")


def _find_wrong(data_type: str, value: str) -> tuple[str, str] | None:
    if data_type == WILDCARD:
        return None if value == WILDCARD else ("value", f"must be * where data_type is, not {value[:80]!r}")
    if data_type not in _TYPES:
        return "data_type", f"must be service, user, or * with the value *, not {data_type[:80]!r}"
    if value.startswith(f"{data_type}:"):
        name = value.removeprefix(f"{data_type}:")
        return "value", f"must be the name alone, {name[:80]!r}, since data_type has the type"
    if value != WILDCARD and not is_caller_name(value):
        return "value", f"must be the name of a caller, of 1 to {CALLER_CHARS_MAX} characters, not {value[:80]!r}"
    return None


UNAUTHENTICATED: Final = Caller("service", "unauthenticated")
"""The caller of every request to a hub that does not authenticate; Nakadi uses the same name."""
THE_HUB: Final = Caller("hub", "penstock")
"""The maker of changes that nobody has asked for; no credential has this data type."""


class Sender(NamedTuple):
    """A caller and the address of its client."""

    caller: Caller
    address: str
    """Empty if it is unknown."""

    @property
    def owner(self) -> str | None:
        """The caller in the form of an owner, for new resources; None if callers are not authenticated.

        >>> Sender(Caller("user", "jane"), "::1").owner, Sender(UNAUTHENTICATED, "::1").owner
        ('user:jane', None)
        """
        return None if self.caller == UNAUTHENTICATED else str(self.caller)


class Claim(NamedTuple):
    """A caller that uses a group, which belongs to its first user."""

    caller: Caller
    overrides: bool = False
    """Whether the caller may use groups of other owners, as an administrator of their event types."""

    @property
    def owner(self) -> str:
        """The caller in the form of an owner, for groups without an owner."""
        return str(self.caller)

    def holds(self, owner: str | None) -> bool:
        """Return whether the caller may use a group of *owner*, or of no owner if that is None.

        >>> claim = Claim(Caller("user", "jane"))
        >>> claim.holds(None), claim.holds("user:jane"), claim.holds("user:joe")
        (True, True, False)
        """
        return self.overrides or owner in (None, self.owner)

    def controls(self, owner: str | None) -> bool:
        """Return whether the caller may move or delete a group of *owner*; one of no owner is for administrators.

        >>> claim = Claim(Caller("user", "jane"))
        >>> claim.controls("user:jane"), claim.controls(None), claim._replace(overrides=True).controls(None)
        (True, False, True)
        """
        return self.overrides or owner == self.owner


class Resource(NamedTuple):
    """The object of a permission: an event type, a subscription, a group, or the hub."""

    kind: Literal["hub", "event_type", "subscription", "group"]
    name: str = ""

    def __str__(self) -> str:
        return self.kind.replace("_", "-") + (f":{self.name}" if self.name else "")


HUB: Final = Resource("hub")
"""The hub as a whole."""


class Rights(NamedTuple):
    """The access rights to one event type or subscription."""

    lists: Mapping[str, frozenset[Attribute]] | None
    """The members of each list of its `authorization`; None if it has none."""
    owner: str | None = None
    """The caller that created it, in the form of `Attribute.parse`; None if that is unknown."""

    @classmethod
    def of(cls, authorization: Mapping[str, Any] | None, owner: str | None) -> "Rights":
        """Return the rights of a resource with this `authorization`, in Nakadi's shape; None if it has none."""
        if authorization is None:
            return cls(None, owner)
        lists = {name: authorization.get(name) or () for name in LISTS}
        return cls(
            {
                name: frozenset(Attribute(each["data_type"], each["value"]) for each in members)
                for name, members in lists.items()
            },
            owner,
        )

    def allow(self, caller: Caller, permission: Permission, *, is_open: bool) -> bool:
        """Return whether *caller* has *permission*.

        A caller has `view` and `own` if it is on any list, and the others if it is on the list of that permission.
        Without lists every caller has every permission if *is_open*; otherwise only the owner has.

        >>> reader = Caller("service", "billing")
        >>> rights = Rights.of({"readers": [{"data_type": "service", "value": "billing"}]}, None)
        >>> [rights.allow(reader, each, is_open=True) for each in ("view", "read", "write", "admin")]
        [True, True, False, False]
        >>> Rights(None, "service:billing").allow(reader, "admin", is_open=False)
        True
        """
        if self.lists is None:
            return is_open or self.owner == str(caller)
        if permission in ("view", "own"):
            return any(has_member(members, caller) for members in self.lists.values())
        return has_member(self.lists[_LIST_OF[permission]], caller)


_LIST_OF: Final[Mapping[str, str]] = {"read": "readers", "write": "writers", "admin": "admins"}


def has_member(members: Collection[Attribute], caller: Caller) -> bool:
    """Return whether *caller* is on a list, by its own name or by a wildcard.

    >>> has_member(frozenset([Attribute("*", "*")]), Caller("user", "jane"))
    True
    """
    return caller in members or _EVERYBODY in members or Attribute(caller.data_type, WILDCARD) in members


_EVERYBODY: Final = Attribute(WILDCARD, WILDCARD)
