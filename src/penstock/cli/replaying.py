"""Publishes lines under a producer group: each of them once, however often the command is given."""

from typing import TYPE_CHECKING

from penstock.cli.failures import CommandFailure
from penstock.cli.output import number, plural, print_json, progress, say
from penstock.client import Replay, Replayed
from penstock.errors import ProducerUnsafe, ReplayDiffers

if TYPE_CHECKING:
    from penstock.cli.lines import EventLines
    from penstock.client import Client
    from penstock.errors import PenstockError


class Replaying:
    """Publishes lines, knows at any time how many of their events are stored, and says so when it fails."""

    def __init__(self, client: "Client", event_type: str, lines: "EventLines", name: str, group: str) -> None:
        self._client = client
        self._event_type = event_type
        self._group = group
        self._lines = lines
        self._name = name
        self._replay: Replay | None = None
        self._done: Replayed | None = None

    def run(self, batch: int, size: int | None) -> None:
        """Publish what is not stored, and show on a terminal how far it is."""
        with progress(known_end=size is not None) as display:
            task = display.add_task(self._event_type, total=size, events=0)

            def note(done: Replayed) -> None:
                display.update(task, completed=self._lines.byte_count if size else None, events=done.count)

            self._replay = Replay(self._client, self._event_type, self._group, batch_events=batch, progress=note)
            self._done = self._replay.publish(self._lines)

    def report(self, seconds: float, *, as_json: bool) -> None:
        """Report the counts of events that were published, and of those that were stored before."""
        done = self._done
        assert done is not None
        new = done.count - done.skipped
        if as_json:
            result = {"event_type": self._event_type, "producer_group": self._group, "count": new}
            print_json(result | {"skipped": done.skipped, "bytes": done.byte_count, "seconds": round(seconds, 3)})
            return
        were = "was" if done.skipped == 1 else "were"
        before = f"; {plural(done.skipped, 'event')} of {self._group} {were} there" if done.skipped else ""
        rate = number(round(new / max(seconds, 1e-6)))
        say(f"published {plural(new, 'event')} to {self._event_type} in {seconds:.1f} s ({rate}/s){before}")

    def failure(self, error: "PenstockError") -> CommandFailure:
        """Say where it failed, and that the same command goes on."""
        event = error.fields.get("line")
        at = error.fields.get("at") or (self._lines.number(event) if isinstance(event, int) else None)
        if at:
            rest = self._rest("Mend the line, and give the same command again")
            return CommandFailure(f"line {at} of {self._name}: {error.fields.get('reason', error.detail)}", rest)
        if isinstance(error, ReplayDiffers):
            place = error.fields.get("event")
            where = "" if place is None else f" (line {self._lines.number(place)} of {self._name})"
            return CommandFailure(error.detail + where, error.hint)
        if isinstance(error, ProducerUnsafe):
            return CommandFailure(error.detail, f"{error.hint}\n{self._count()} stored.")
        return CommandFailure(error.detail, f"{error.hint}\n{self._rest()}" if error.hint else self._rest())

    def broken(self, error: OSError) -> CommandFailure:
        """Say the same where the input itself cannot be read any further."""
        return CommandFailure(f"{self._name} cannot be read: {error.strerror}", self._rest())

    def make_interruption(self, how: str, status: int) -> CommandFailure:
        """Say the same where a signal has broken in."""
        return CommandFailure(how, self._rest(), status=status)

    def _rest(self, advice: str = "Give the same command again") -> str:
        advice += ": it goes on behind what is stored, and stores nothing twice."
        return f"{self._count()} stored for certain. {advice}"

    def _count(self) -> str:
        stored = self._replay.done.count if self._replay else 0
        return f"{plural(stored, 'event')} {'is' if stored == 1 else 'are'}"
