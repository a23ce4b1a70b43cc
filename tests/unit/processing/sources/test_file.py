import gzip
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from penstock.errors import BadParameter, EventsLost, InvalidRecord, Unavailable
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources import file as file_module
from penstock.processing.sources.file import FILES_AT_ONCE, FileSource, LinePlace
from tests.failing import has_code


class Seen:
    """Keeps the numbers it is given, by stream."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {}
        self.broken: set[str] = set()
        self.came = threading.Condition()

    def __call__(self, stream: str, events: Any) -> None:
        if stream in self.broken:
            raise ValueError("broken")
        with self.came:
            self.numbers.setdefault(stream, []).extend(event.data["n"] for event in events)
            self.came.notify_all()

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: sum(map(len, self.numbers.values())) >= count, 20)


def lines(numbers: Iterable[int]) -> bytes:
    return b"".join(json.dumps({"id": f"{n % 3}", "n": n}).encode() + b"\n" for n in numbers)


def wanted(numbers: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(f"{number % 3}", []).append(number)
    return found


def source(*paths: object, **options: Any) -> FileSource:
    return FileSource(*map(str, paths), **{"stream": ["id"], **options})


COMPRESS = {
    "events.ndjson": bytes,
    "events.ndjson.gz": gzip.compress,
    "events.ndjson.zst": lambda raw: zstandard.compress(raw[:70]) + zstandard.compress(raw[70:]),
}


@pytest.mark.parametrize("name", list(COMPRESS))
def test_each_line_is_an_event_and_a_restart_continues_behind_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "BATCH_EVENTS", 7)
    path = tmp_path / name
    path.write_bytes(COMPRESS[name](b"\xef\xbb\xbf# a comment\n\n" + lines(range(50)) + b"  # another\r\n\n"))
    seen, checkpoints = Seen(), MemoryCheckpoints()
    seen.broken = {"2"}
    InlineProcessor(seen, source(path), checkpoints=checkpoints).drain()
    first = seen.numbers
    assert {**first, "2": []} == {**wanted(range(50)), "2": []}

    seen.numbers, seen.broken = {}, set()
    last = source(path)
    InlineProcessor(seen, last, checkpoints=checkpoints).drain()
    assert seen.numbers["2"] == wanted(range(50))["2"]
    assert last.behind(checkpoints.positions()) == {str(path): 0}  # type: ignore[arg-type]

    seen.numbers = {}
    InlineProcessor(seen, source(path), checkpoints=checkpoints).drain()
    assert seen.numbers == {}


def test_stream_and_kind_are_fields_or_functions(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text('{"a": {"id": 7}, "b": "x", "type": "placed"}\n{"a": {"id": 8}, "b": "y", "type": "paid"}')
    found: list[Any] = []
    InlineProcessor(
        lambda _, events: found.extend(events), FileSource(path, stream=["a.id", "b"], kind=["type"])
    ).drain()
    assert [(each.stream, each.kind, each.index, each.tranche) for each in found] == [
        ("7-x", "placed", 0, str(path)), ("8-y", "paid", 45, str(path)),
    ]  # fmt: skip
    assert found[0].raw == b'{"a": {"id": 7}, "b": "x", "type": "placed"}'
    found.clear()
    InlineProcessor(
        lambda _, events: found.extend(events), FileSource(path, stream=lambda line: f"order-{line['a']['id']}")
    ).drain()
    assert [(each.stream, each.kind) for each in found] == [("order-7", "event"), ("order-8", "event")]


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        *((wrong, {}, "not valid JSON") for wrong in ('{"id": ', "[" * 100_000)),
        ("1", {}, "id is missing"),
        ('{"id": true}', {}, "id .*a text or a whole number"),
        ('{"n": 1}', {}, "id is missing"),
        ('{"id": 1.5}', {}, "id .*a text or a whole number"),
        ('{"id": "1"}', {"kind": ["type"]}, "type is missing"),
        ('{"n": 1}', {"stream": lambda line: line["id"]}, "KeyError: 'id'"),
    ],
)
def test_malformed_line_is_named_after_the_lines_before_it_are_handled(
    tmp_path: Path, line: str, options: dict[str, Any], reason: str
) -> None:
    path, good = tmp_path / "events.ndjson", '{"id": "1", "type": "x", "n": 5}\n'
    path.write_text(f"# first\n{good}{line}\n{good}")
    seen, checkpoints = Seen(), MemoryCheckpoints()
    running = InlineProcessor(seen, source(path, **options), checkpoints=checkpoints)
    with pytest.raises(InvalidRecord, check=has_code("invalid-line"), match=f"events.ndjson, line 3: .*{reason}"):
        running.drain()
    while running.engine.take(0, 0.0):
        pass
    assert checkpoints.positions() == {
        str(path): LinePlace(8 + len(good), 2).behind(f"# first\n{good}".encode()).encode()
    }
    assert seen.numbers == {"1": [5]}


def test_truncated_compressed_file_is_noticed(tmp_path: Path) -> None:
    for name, compress in list(COMPRESS.items())[1:]:
        path = tmp_path / name
        whole = compress(lines(range(5_000)))
        path.write_bytes(whole[: len(whole) - 20])
        with pytest.raises(InvalidRecord, check=has_code("invalid-line"), match="cannot be read on"):
            InlineProcessor(Seen(), source(path)).drain()


def test_files_that_appear_later_are_read(tmp_path: Path) -> None:
    seen, checkpoints = Seen(), MemoryCheckpoints()
    (tmp_path / "a.ndjson").write_bytes(lines(range(10)))
    with LocalProcessor(seen, source(tmp_path / "*.ndjson"), checkpoints=checkpoints) as running:
        running.wait_until_caught_up(300)
        for number in range(1, 4):
            part = tmp_path / "part"
            part.write_bytes(lines(range(10 * number, 10 * number + 10)))
            part.rename(tmp_path / f"{number}.ndjson")
            running.wait_until_caught_up(300)
    assert {stream: sorted(numbers) for stream, numbers in seen.numbers.items()} == wanted(range(40))
    assert len(checkpoints.positions()) == 4


def test_file_with_several_names_is_read_once(tmp_path: Path) -> None:
    path, link, seen, checkpoints = tmp_path / "b.ndjson", tmp_path / "a.ndjson", Seen(), MemoryCheckpoints()
    path.write_bytes(lines(range(10)))
    link.symlink_to(path)
    read = source(tmp_path / "*.ndjson", f"{tmp_path}/./b.ndjson", path)
    InlineProcessor(seen, read, checkpoints=checkpoints).drain()
    assert seen.numbers == wanted(range(10))
    assert list(read.behind(checkpoints.positions())) == list(read.tranches()) == [str(path)]  # type: ignore[arg-type]


def test_wait_on_a_pattern_without_files_says_so(tmp_path: Path) -> None:
    with (
        LocalProcessor(Seen(), source(tmp_path / "*.ndjson")) as running,
        pytest.raises(Unavailable, match="behind is what may come: it has begun with no tranche of its source"),
    ):
        running.wait_until_caught_up(0.05)


def test_many_files_take_turns(tmp_path: Path) -> None:
    count = 3 * FILES_AT_ONCE
    for number in range(count):
        (tmp_path / f"{number:03}.ndjson").write_bytes(lines([number]))
    seen, read = Seen(), source(tmp_path / "*.ndjson")
    InlineProcessor(seen, read).drain()
    assert {stream: sorted(numbers) for stream, numbers in seen.numbers.items()} == wanted(range(count))


def test_growing_file_is_followed_by_whole_lines(tmp_path: Path) -> None:
    path, seen = tmp_path / "events.ndjson", Seen()
    with LocalProcessor(seen, source(path, follow=True)) as running:
        with path.open("ab", buffering=0) as file:
            file.write(lines(range(5)) + b'{"id": "0", ')
            running.wait_until_caught_up(300)
            assert seen.numbers == wanted(range(5))
            file.write(b'"n": 5}\n' + lines(range(6, 9)))
            seen.wait_for(9)
        running.wait_until_caught_up(300)
    assert seen.numbers == {"0": [0, 3, 5, 6], "1": [1, 4, 7], "2": [2, 8]}


def test_file_that_is_not_followed_is_read_once(tmp_path: Path) -> None:
    path, seen = tmp_path / "events.ndjson", Seen()
    path.write_bytes(lines(range(3)))
    running = InlineProcessor(seen, source(path))
    running.drain()
    with path.open("ab") as file:
        file.write(lines(range(3, 5)))
    running.drain()
    assert seen.numbers == wanted(range(3))


@pytest.mark.parametrize("name", list(COMPRESS))
def test_replaced_file_is_noticed(tmp_path: Path, name: str) -> None:
    path, compress = tmp_path / name, COMPRESS[name]
    others = (lines(range(3)), b'{"id": "x", "n": 1, "more": true}\n' + lines(range(40)), lines(range(30, 90)))
    for instead in map(compress, others):
        path.write_bytes(compress(lines(range(10, 30))))
        checkpoints = MemoryCheckpoints()
        InlineProcessor(Seen(), source(path), checkpoints=checkpoints).drain()
        path.write_bytes(instead)
        with pytest.raises(EventsLost, check=has_code("file-changed"), match=name):
            InlineProcessor(Seen(), source(path), checkpoints=checkpoints).drain()


def test_file_that_was_read_to_its_end_may_disappear(tmp_path: Path) -> None:
    path, seen = tmp_path / "events.ndjson", Seen()
    path.write_bytes(lines(range(20)))
    for follow in (False, True):
        path.write_bytes(lines(range(20)))
        running = InlineProcessor(seen, source(path, follow=follow))
        running.drain()
        path.unlink()
        running.drain()
    assert seen.numbers["0"] == 2 * wanted(range(20))["0"]


def test_parked_lines_are_read_again(tmp_path: Path) -> None:
    path, seen, checkpoints = tmp_path / "events.ndjson.gz", Seen(), MemoryCheckpoints()
    path.write_bytes(gzip.compress(lines(range(30))))
    seen.broken = {"1"}
    rules = Rules(attempts_max=1, exhausted="park", backoff=Backoff(first_seconds=0.001))
    InlineProcessor(seen, source(path), checkpoints=checkpoints, rules=rules).drain(advance=True)
    assert "1" not in seen.numbers
    assert len(checkpoints.parked()) == 1

    seen.broken = set()
    checkpoints.ask("1", "retry")
    InlineProcessor(seen, source(path), checkpoints=checkpoints, rules=rules).drain(advance=True)
    assert seen.numbers == wanted(range(30))
    assert checkpoints.parked() == []


def test_impossible_file_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="one file, or one pattern"):
        source()
    with pytest.raises(BadParameter, match="a file that is there, or a pattern"):
        source(tmp_path / "none.ndjson")
    odd = tmp_path / "a[1].ndjson"
    odd.write_bytes(lines([1]))
    seen = Seen()
    InlineProcessor(seen, source(odd)).drain()
    assert seen.numbers == {"1": [1]}
