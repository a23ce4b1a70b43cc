"""The meaning of field names: moments, ids of processes, events and entities."""

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")

_LETTERS: Final = str.maketrans({"ß": "ss", "ẞ": "SS", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"})
_TWO_LETTERS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})

_TIMES: Final = {
    *("at", "time", "timestamp", "datetime", "date", "day", "ts", "millis", "epoch", "utc"),
    *("created", "updated", "modified", "changed"),
}
"""Names with these last words are about a moment."""

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
    """Return the words of a name, in lower case and without diacritics.

    >>> words("customerEMailAddress"), words("bp-id"), words("prénom_2")
    (('customer', 'e', 'mail', 'address'), ('bp', 'id'), ('prenom', '2'))
    """
    return tuple(word.lower() for word in _WORD.findall(fold_letters(name)))


def fold_letters(text: str) -> str:
    """Return *text* with letters outside of a-z replaced by their base letters.

    >>> fold_letters("Straße"), fold_letters("fødselsnummer"), fold_letters("Größe")
    ('Strasse', 'fodselsnummer', 'Grosse')
    """
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def transliterate(text: str) -> str:
    """Return *text* in lower case, with letters outside of a-z in their usual transliteration: `ue` for `ü`.

    >>> transliterate("führerschein"), transliterate("fødselsår")
    ('fuehrerschein', 'foedselsaar')
    """
    return fold_letters(text.lower().translate(_TWO_LETTERS))


def says_time(name: str) -> bool:
    """Return whether the name is that of a moment.

    >>> says_time("occurred_at"), says_time("version")
    (True, False)
    """
    return bool((found := words(name)) and found[-1] in _TIMES)


def says_process_id(name: str) -> bool:
    """Return whether the name is that of the id of a business process.

    >>> says_process_id("bp_id"), says_process_id("orderProcessId"), says_process_id("order_id")
    (True, True, False)
    """
    return any(words(name)[-len(those) :] == those for those in _PROCESS_IDS)


def says_event_id(name: str) -> bool:
    """Return whether the name is that of an event's own id.

    >>> says_event_id("eventId"), says_event_id("order_id")
    (True, False)
    """
    return words(name) in _EVENT_IDS


def says_change_id(name: str) -> bool:
    """Return whether the name is that of the id of a single event or change, and not of its entity.

    >>> says_change_id("eid"), says_change_id("id")
    (True, False)
    """
    return words(name) in _CHANGE_IDS


def says_entity_id(name: str, event_type: str) -> bool:
    """Return whether the name is that of the id of the entity that *event_type* is about.

    >>> says_entity_id("id", "shop.orders"), says_entity_id("orderNumber", "shop.orders")
    (True, True)
    >>> says_entity_id("customer_id", "shop.orders")
    False
    """
    *of, last = words(name) or ("",)
    if last not in _KEY_ENDINGS:
        return False
    about = {one for word in words(event_type) for one in list_singular_forms(word)}
    return set(of) <= about if of else last in _KEYS_ALONE


def list_singular_forms(word: str) -> tuple[str, ...]:
    """Return the words of which *word* can be the plural, itself included.

    >>> list_singular_forms("boxes"), list_singular_forms("categories")
    (('boxes', 'boxe', 'box'), ('categories', 'category'))
    """
    if word.endswith("ies"):
        return word, f"{word[:-3]}y"
    return (word, word[:-1], word[:-2]) if word.endswith("es") else (word, word.removesuffix("s"))
