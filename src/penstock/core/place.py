"""Where in two schemas a comparison is: the pointer, and what holds there."""

from typing import Final, NamedTuple

from penstock.core.walk import shown

BESIDE: Final = "add an optional property with what is new, and leave the old one as it is"
AROUND: Final = "leave it as it is, and add an optional property with what is new to an object further out"
NOWHERE: Final = "leave it as it is: what has to be otherwise takes another event type"


class Place(NamedTuple):
    """A place of a schema."""

    pointer: str
    root: bool = False
    """What events are themselves: objects, whether their schema says so or not."""
    open: bool = False
    """Where `closed` does not reach."""
    shared: bool = False
    """Where other schemas may look at the same value, and know what this one does not: branches, patterns."""
    one_of: bool = False
    """Within a branch of `oneOf`, where events fit the others by what this one refuses."""
    unique: bool = False
    """Within an array of unique items, which are no longer so without the members that tell them apart."""
    beside: bool = False
    """Within a member, beside which an optional property can be added."""
    around: bool = False
    """Within a member, around which there is another one of which that is so."""

    def within(self, *names: str, **marks: bool) -> "Place":
        """Return the place to which *names* lead from here."""
        return self._replace(pointer=self.pointer + shown(names)[1:], root=False, **marks)

    def member(self, *names: str, beside: bool, **marks: bool) -> "Place":
        """Return the place of a member of the value that is described here."""
        return self.within(*names, beside=beside, around=self.beside or self.around, **marks)

    @property
    def way_out(self) -> str:
        """What to do where a change is refused that has to do with this place alone.

        >>> Place("#/minProperties").way_out
        'leave it as it is: what has to be otherwise takes another event type'
        """
        if self.beside:
            return BESIDE
        return AROUND if self.around else NOWHERE
