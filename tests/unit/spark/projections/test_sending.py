import subprocess
import sys
from typing import Final

PROGRAM: Final = """
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from pyspark.cloudpickle import dumps

from penstock.spark.projections.sending import make_sendable


class Place(NamedTuple):
    row: int


@dataclass
class Seat:
    place: Place
    taken: bool = False


@dataclass
class Hall:
    seats: dict[str, list[Seat]] = field(default_factory=dict)


given = b'{"seats": {"a": [{"place": [3]}]}}'
read = msgspec.json.decode(given, type=Hall)
try:
    dumps(Hall)
except TypeError:
    pass
else:
    raise SystemExit("it could be sent before: nothing has to be done for it any more")
make_sendable(Hall)
assert dumps(Hall)
assert msgspec.json.decode(given, type=Hall) == read
make_sendable(Hall)
assert dumps([Hall, Seat, Place])
"""


def test_a_state_that_a_program_defines_can_be_sent_though_it_was_read_and_read_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr


def test_what_a_module_defines_stays_as_it_is() -> None:
    from penstock.cli.demo.delays import Sums
    from penstock.spark.projections.sending import make_sendable

    make_sendable(Sums)
    assert Sums(1).flights == 1
