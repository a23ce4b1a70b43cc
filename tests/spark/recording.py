"""A handler that writes down what it is given, and a feed of customers that is handled."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints

BROKEN = ".broken"


class RecordingHandler:
    """A handler that writes down what it is given, a file for each stream: it is called in other processes.

    It fails while a file named after the stream and `.broken` is there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = str(folder)

    def __call__(self, stream: str, events: Sequence[Any]) -> None:
        path = Path(self.folder) / stream
        if path.with_name(f"{stream}{BROKEN}").exists():
            raise ValueError("broken")
        lines = [
            [each.stream, each.index, each.kind, each.key, each.data, dict(each.headers), each.tranche, each.received]
            for each in events
        ]
        with path.open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))

    def break_stream(self, stream: str) -> Path:
        """Make a stream fail for as long as the file is there that is returned."""
        path = Path(self.folder) / f"{stream}{BROKEN}"
        path.touch()
        return path

    def events(self) -> dict[str, list[list[Any]]]:
        """Return what was handled, by stream, in its order."""
        files = [path for path in Path(self.folder).iterdir() if path.suffix != BROKEN]
        return {path.name: [json.loads(line) for line in path.read_text().splitlines()] for path in files}

    def numbers(self) -> dict[str, list[int]]:
        """Return the numbers that were handled, by stream, in their order."""
        return {stream: [event[4]["n"] for event in events] for stream, events in self.events().items()}


@dataclass
class CustomerFeed:
    """A feed of numbers for ten customers in four partitions, and the handler of its events."""

    url: str
    client: Client
    name: str
    handler: RecordingHandler
    folder: Path
    customers: int = 10

    def create(self, suffix: str, *, partitions: int, customers: int = 10) -> "CustomerFeed":
        """Return another one, whose events the same handler handles."""
        made = CustomerFeed(self.url, self.client, f"{self.name}.{suffix}", self.handler, self.folder, customers)
        self.client.create_event_type(
            made.name, partition_count=partitions, partition_strategy="hash", partition_key_fields=["customer"]
        )
        return made

    def publish(self, numbers: range) -> None:
        """Publish numbers, each for a customer."""
        self.client.publish(self.name, [{"customer": f"{n % self.customers}", "n": n} for n in numbers])

    def stream(self, customer: int) -> str:
        return f"{self.name}-{customer}"

    def expected(self, numbers: range) -> dict[str, list[int]]:
        """Return what is to be handled, by stream."""
        return {self.stream(key): [n for n in numbers if n % self.customers == key] for key in range(self.customers)}

    def checkpoints(self) -> DatabaseCheckpoints:
        """Return those in a file of its own."""
        return DatabaseCheckpoints(f"sqlite:///{self.folder}/checkpoints.db", self.name)

    def break_stream(self, customer: int) -> Path:
        """Make a stream fail for as long as the file is there that is returned."""
        return self.handler.break_stream(self.stream(customer))

    def ends(self) -> dict[str, str]:
        """Return the positions behind the last events."""
        return {f"{self.name}/{each.partition}": f"1:{each.head}" for each in self.client.partitions(self.name)}


def wait_for(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until *condition* holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "that has not come"
        time.sleep(0.05)
