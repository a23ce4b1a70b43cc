"""Recognises personal data by the name of a field, and by the names of the objects around it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.schema.guidelines import personal_data_terms
from penstock.schema.guidelines.names import fold_letters, list_singular_forms, transliterate, words
from penstock.schema.guidelines.personal_data_terms import KINDS, PersonalDataKind

Words = Sequence[str]


class _Term(NamedTuple):
    """A kind of personal data that a name can mean, and under which condition."""

    kind: PersonalDataKind
    of: str
    """The required owner: "anybody", "no thing", or "person"."""


def personal_kind(name: str, owners: Sequence[str] = (), format: str | None = None) -> PersonalDataKind | None:
    """Return the kind of personal data that a field seems to hold; None if it seems to hold none.

    *owners* are the names of the objects around the field, from the nearest on; *format* is the format in its schema.

    >>> personal_kind("customerEmail").id, personal_kind("email_template"), personal_kind("name")
    ('contact', None, None)
    >>> personal_kind("name", ["customer"]).id, personal_kind("name", ["airline"])
    ('name', None)
    """
    return _FieldWords(name, owners).kind(format)


def entity_of(event_type: str) -> str:
    """Return the entity that an event type is about, as far as its name says so: the last noun in it.

    >>> entity_of("shop.customer-registered"), entity_of("customer.order.placed")
    ('customer', 'order')
    """
    found = list(words(event_type))
    while len(found) > 1 and (found[-1] in _HAPPENINGS or found[-1].isdecimal() or found[-1].endswith("ed")):
        found.pop()
    return found[-1] if found else ""


def says_whose(name: str) -> bool:
    """Return whether the name of an object says that it is a person, or that it is not.

    >>> says_whose("Customer"), says_whose("airport"), says_whose("party")
    (True, True, False)
    """
    return _ends_with(_strip_trailing(words(name), _TRANSPARENT), _PEOPLE | _THINGS)


class _FieldWords:
    """A field, and the objects around it."""

    def __init__(self, name: str, owners: Sequence[str]) -> None:
        self._own = words(name)
        self._owners = owners
        nearest = words(owners[0])[-_WORDS_MAX:] if owners else ()
        self._words = (*nearest, *self._own)
        self._first = len(nearest)
        """The index of the field's own first word."""
        self._tail = len(_strip_trailing(self._words, _STILL))
        """The index of the first word that may be left out without changing the meaning."""

    def kind(self, format: str | None) -> PersonalDataKind | None:
        """Return the kind of personal data that it holds; None if it holds none."""
        if not 0 < len(self._own) <= _NAME_WORDS_MAX:
            return None
        if self._own[0] in _ABOUT or "".join(self._own[:2]) in _ABOUT:
            return None
        if format and format in personal_data_terms.FORMATS and not self._belongs_to(_THINGS, len(self._words)):
            return _KINDS[personal_data_terms.FORMATS[format]]
        seen: list[tuple[int, int]] = []
        for start, end, terms in self._terms():
            if any(first <= start and end <= last for first, last in seen):
                continue  # Part of a longer term: the address in `mac_address` is not a postal address.
            if found := next((term.kind for term in terms if self._holds(start, end, term)), None):
                return found
            seen.append((start, end))
        return None

    def _terms(self) -> Iterator[tuple[int, int, Sequence[_Term]]]:
        """Yield the terms in the name, the longest first, each with the range of its words."""
        count = len(self._words)
        for length in range(min(_WORDS_MAX, count), 0, -1):
            for end in range(count, max(self._first, length - 1), -1):
                run = "".join(self._words[end - length : end])
                if spelling := next(filter(_TERMS.__contains__, list_singular_forms(run)), None):
                    yield end - length, end, _TERMS[spelling]

    def _holds(self, start: int, end: int, term: _Term) -> bool:
        """Return whether the *term* from word *start* to *end* means that the field holds such data."""
        if end < self._tail:
            return start == self._first and _names_person(self._words[end:])
        if term.of == "person":
            return start >= self._first and self._belongs_to(_PEOPLE, start)
        return term.of == "anybody" or not self._belongs_to(_THINGS, start)

    def _belongs_to(self, whom: frozenset[str], start: int) -> bool:
        """Return whether the words before *start*, or else the objects around the field, name one of *whom*."""
        if start >= self._first:
            before, owners = self._words[self._first : start], self._owners
        else:
            before, owners = self._words[:start], self._owners[1:]
        if _ends_with(before, whom):
            return True
        if said := _strip_trailing(before, _STILL):
            return _ends_with(said, whom)
        for owner in map(words, owners):
            if _ends_with(owner, whom):
                return True
            if said := _strip_trailing(owner, _TRANSPARENT):
                return _ends_with(said, whom)
        return False


def _names_person(after: Words) -> bool:
    """Return whether the words after a term name its owner, as in `nombre_del_cliente`."""
    rest = [word for word in after if word not in _OF]
    return len(rest) == 1 and _ends_with(rest, _PEOPLE)


def _ends_with(said: Words, whom: frozenset[str]) -> bool:
    return any(each in whom for run in (said[-1:], said[-2:]) for each in list_singular_forms("".join(run)))


def _strip_trailing(said: Words, ending: frozenset[str]) -> Words:
    """Return *said* without trailing words that are numbers or among *ending*."""
    count = len(said)
    while count and (said[count - 1] in ending or said[count - 1].isdecimal()):
        count -= 1
    return said[:count]


def _spellings(text: str) -> frozenset[str]:
    """Return all spellings of the names in *text*, without separators between their words."""
    names = [name.replace("_", "") for name in text.split()]
    names += [f"{name.removesuffix('nummer')}nr" for name in names if name.endswith("nummer")]
    return frozenset(spelling for name in names for spelling in (fold_letters(name), transliterate(name)))


def _terms() -> Mapping[str, list[_Term]]:
    found: dict[str, list[_Term]] = {}
    for kind in KINDS:
        for text, of in ((kind.always, "anybody"), (kind.unless_of_things, "no thing"), (kind.of_people, "person")):
            for spelling in _spellings(text):
                found.setdefault(spelling, []).append(_Term(kind, of))
    return found


_TERMS: Final = _terms()
_WORDS_MAX: Final = 6
"""Upper bound of the words of a name that stands for a kind of personal data, however it is split."""
_NAME_WORDS_MAX: Final = 40
"""Longer names are ignored."""
_KINDS: Final = {kind.id: kind for kind in KINDS}
_PEOPLE: Final = _spellings(personal_data_terms.PEOPLE)
_THINGS: Final = _spellings(personal_data_terms.THINGS)
_STILL: Final = _spellings(personal_data_terms.STILL)
_ABOUT: Final = _spellings(personal_data_terms.ABOUT)
_OF: Final = _spellings(personal_data_terms.OF)
_TRANSPARENT: Final = _spellings(personal_data_terms.TRANSPARENT)
_HAPPENINGS: Final = _spellings(personal_data_terms.HAPPENINGS)
