"""A batch that is under way, or a part of one."""

from penstock.processing.engine.item import Position


class Running:
    """What was read at once, as long as something of it is not done."""

    __slots__ = ("end", "events", "is_part", "missing", "number", "start")

    def __init__(self, number: int, start: Position, end: Position, events: int, *, is_part: bool = False) -> None:
        self.number = number
        """Over all tranches, as they came."""
        self.start = start
        self.end = end
        self.events = events
        self.is_part = is_part
        """Whether the next one was read together with it."""
        self.missing = 0
        """How many streams have something in it that is not handled yet."""
