"""What the name of a field says about what it holds."""

import re
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")

_TIMES: Final = {
    *("at", "time", "timestamp", "datetime", "date", "day", "ts", "millis", "epoch", "utc"),
    *("created", "updated", "modified", "changed"),
}
"""A name that ends so is about a moment."""

_PERSONAL: Final = (
    *(("email",), ("e", "mail"), ("mail", "address"), ("emails",), ("e", "mails")),
    *(("phone",), ("phones",), ("telephone",), ("telefon",), ("msisdn",), ("fax",)),
    *(("mobile", "number"), ("mobile", "no"), ("mobile", "nr"), ("cell", "number"), ("tel",)),
)
_HINTS: Final = re.compile("mail|phon|fon|msisdn|fax|mobile|cell|tel", re.IGNORECASE)
"""Without one of those there is no need to look any closer."""
_STILL_PERSONAL: Final = {
    *("address", "addresses", "number", "numbers", "no", "nr", "num", "value", "values", "text", "list"),
    *("primary", "secondary", "home", "work", "private", "business", "contact", "normalized", "raw"),
}
"""After one of those it is still the thing itself; after any other word it is something about it: `email_template`."""

_PROCESS_IDS: Final = (
    *(("bp", "id"), ("bpid",), ("process", "id"), ("process", "instance", "id"), ("process", "uuid")),
    *(("correlation", "id"), ("saga", "id"), ("workflow", "id")),
)
_EVENT_IDS: Final = frozenset([("eid",), ("event", "id"), ("event", "uuid"), ("id",), ("uuid",), ("ce", "id")])
_CHANGE_IDS: Final = frozenset(
    [("eid",), ("event", "id"), ("event", "uuid"), ("ce", "id"), ("change", "id"), ("change", "uuid")]
)
_KEY_ENDINGS: Final = frozenset(["id", "ids", "uuid", "key", "number", "no", "nr", "code", "sku", "ean"])
_KEYS_ALONE: Final = frozenset(["id", "uuid", "key", "code", "sku", "ean"])


def words(name: str) -> tuple[str, ...]:
    """Return the words of which a name is made, in lower case.

    >>> words("customerEMailAddress"), words("bp-id"), words("phone_2")
    (('customer', 'e', 'mail', 'address'), ('bp', 'id'), ('phone', '2'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


def says_time(name: str) -> bool:
    """Tell whether the name is that of a moment.

    >>> says_time("occurred_at"), says_time("version")
    (True, False)
    """
    return bool((found := words(name)) and found[-1] in _TIMES)


def says_contact(name: str) -> bool:
    """Tell whether the name is that of an e-mail address, or of a phone number.

    >>> says_contact("customerEmail"), says_contact("phone_number_2"), says_contact("email_template")
    (True, True, False)
    """
    if not _HINTS.search(name):
        return False
    found = words(name)
    return any(
        found[at : at + len(those)] == those
        and all(word in _STILL_PERSONAL or word.isdecimal() for word in found[at + len(those) :])
        for those in _PERSONAL
        for at in range(len(found))
    )


def says_process_id(name: str) -> bool:
    """Tell whether the name is that of the id of a business process.

    >>> says_process_id("bp_id"), says_process_id("orderProcessId"), says_process_id("order_id")
    (True, True, False)
    """
    return any(words(name)[-len(those) :] == those for those in _PROCESS_IDS)


def says_event_id(name: str) -> bool:
    """Tell whether the name is that of an event's own id.

    >>> says_event_id("eventId"), says_event_id("order_id")
    (True, False)
    """
    return words(name) in _EVENT_IDS


def says_change_id(name: str) -> bool:
    """Tell whether the name is that of the id of a single event or change, not of what it is about.

    >>> says_change_id("eid"), says_change_id("id")
    (True, False)
    """
    return words(name) in _CHANGE_IDS


def says_entity_id(name: str, event_type: str) -> bool:
    """Tell whether the name is that of the id of what *event_type* is about.

    >>> says_entity_id("id", "shop.orders"), says_entity_id("orderNumber", "shop.orders")
    (True, True)
    >>> says_entity_id("customer_id", "shop.orders")
    False
    """
    *of, last = words(name) or ("",)
    if last not in _KEY_ENDINGS:
        return False
    about = {one for word in words(event_type) for one in _singular(word)}
    return set(of) <= about if of else last in _KEYS_ALONE


def _singular(word: str) -> tuple[str, ...]:
    if word.endswith("ies"):
        return word, f"{word[:-3]}y"
    return (word, word[:-1], word[:-2]) if word.endswith("es") else (word, word.removesuffix("s"))
