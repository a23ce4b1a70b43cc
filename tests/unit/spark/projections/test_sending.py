import subprocess
import sys
from typing import Final

PROGRAM: Final = """
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from pyspark.cloudpickle import dumps

from penstock.spark.projections.project import make_sendable


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


def test_state_class_of_main_can_be_sent_after_msgspec_has_read_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr


def test_state_class_of_a_module_is_left_unchanged() -> None:
    from penstock.spark.projections.project import make_sendable
    from penstock_demo.delays import Sums

    make_sendable(Sums)
    assert Sums(1).flights == 1


STRUCT: Final = """
import subprocess
import sys

import msgspec
from pyspark.cloudpickle import dumps

from penstock.errors import BadParameter
from penstock.spark.projections.project import make_sendable


class Sum(msgspec.Struct):
    total: int = 0


class Sums(msgspec.Struct):
    sums: dict[str, list[Sum]] = {}


for given in (Sum, Sums):
    try:
        make_sendable(given)
    except BadParameter as error:
        told = str(error)
    assert told.startswith(f"parameter state is '{given.__name__} of __main__'; allowed: a dataclass; or"), told
elsewhere = [sys.executable, "-c", "import pickle, sys; sys.exit('total' in dir(pickle.load(sys.stdin.buffer)))"]
assert subprocess.run(elsewhere, input=dumps(Sum)).returncode == 0, "it is sent whole by now: refuse it no more"
"""


def test_struct_of_main_is_refused_because_it_would_lose_its_fields() -> None:
    done = subprocess.run([sys.executable, "-c", STRUCT], check=False, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
