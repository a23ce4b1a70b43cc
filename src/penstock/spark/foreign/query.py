"""The parts of a query of a foreign server: options, tasks, rows and, for a stream, offsets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec
from pyspark.sql.types import StructType

from penstock.errors import BadParameter
from penstock.spark.columns import QueryColumn
from penstock.spark.options import select_options

if TYPE_CHECKING:
    import pyarrow as pa

Query = TypeVar("Query", bound="ForeignQuery")
Offset = TypeVar("Offset")
BATCH_BYTES: Final = 4 << 20
"""About the size of the pieces in which rows are handed to Spark and landed."""


def option(parse: Callable[[str, Any], Any], default: Any = MISSING, **how: Any) -> Any:
    """Return the dataclass field of an option, whose text *parse* reads.

    The option is needed if there is no *default*: *parse* then gets None where it is missing.
    """
    return field(default=default, metadata={"parse": parse}, **how)


def option_names(kind: "type[ForeignQuery]") -> tuple[str, ...]:
    """Return the names of the options of a *kind* of query, as users write them."""
    return tuple(_name(each.name) for each in fields(kind))  # type: ignore[arg-type]


def parse_query(kind: type[Query], given: Mapping[str, str]) -> Query:
    """Return the query of a *kind* with the options *given*. Names of options are case-insensitive.

    Raises:
        BadParameter: One is missing, unknown or wrong. The error has its name, its value and the allowed values.
    """
    values = select_options(given, option_names(kind))
    chosen = {
        each.name: each.metadata["parse"](_name(each.name), values.get(_name(each.name)))
        for each in fields(kind)  # type: ignore[arg-type]
        if _name(each.name) in values or each.default is MISSING
    }
    return kind(**chosen)


def _name(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


class ForeignQuery(ABC):
    """A query of one server: a frozen dataclass whose fields are its options. Spark sends it to executors."""

    source: ClassVar[str]
    """The name of the format."""
    columns: ClassVar[StructType]
    """All columns of the format."""
    offset_type: ClassVar[Any]
    """The type of the offsets, for msgspec."""
    offset_example: ClassVar[str]
    max_events_per_trigger: int

    @property
    def all_columns(self) -> StructType:
        """The columns that the query can have."""
        return self.columns

    @abstractmethod
    def check(self, *, is_stream: bool) -> None:
        """Raise BadParameter if an option does not suit a batch, or a stream."""

    def plan(self) -> Sequence[Any]:
        """Return the tasks of a batch, unless `check` has refused it."""
        raise NotImplementedError

    def read(self, columns: Sequence[QueryColumn], task: Any) -> "Iterator[pa.RecordBatch]":
        """Read *columns* of a task, of a batch or a micro-batch, on an executor; by default of landed pages."""
        found: Iterator[pa.RecordBatch] = task.read(columns)
        return found

    @abstractmethod
    def stream(self) -> "ForeignStream[Any]":
        """Return the driver's part of a stream, for one start of it."""

    def decode(self, given: Any) -> Any:
        """Return an offset from the JSON that Spark keeps.

        Raises:
            BadParameter: It is not an offset of this format.
        """
        try:
            return msgspec.convert(given, self.offset_type, str_keys=True)
        except msgspec.ValidationError as error:
            detail = f"the checkpoint holds an offset that is not one of format('{self.source}'): {given!r} ({error})"
            allowed = f"offsets such as {self.offset_example}"
            raise BadParameter(detail, parameter="offset", value=given, allowed=allowed) from None


def encode_offset(offset: Any) -> Any:
    """Return *offset* as the JSON that Spark keeps."""
    return msgspec.to_builtins(offset, str_keys=True)


class ForeignStream(ABC, Generic[Offset]):
    """The driver's part of a stream, from one start to its end."""

    @abstractmethod
    def begin(self) -> Offset:
        """Return where a new query begins."""

    @abstractmethod
    def advance(self, start: Offset, events_max: int | None) -> Offset:
        """Return where the micro-batch from *start* ends; *start* if there is nothing new. None sets no limit."""

    @abstractmethod
    def end_now(self) -> None:
        """End the query where its partitions end now."""

    @abstractmethod
    def plan(self, start: Offset, end: Offset) -> Sequence[Any]:
        """Return the tasks of a micro-batch; they read the same events whenever it is planned again."""

    def newest(self) -> Offset | None:
        """Return where the partitions ended when that was last seen; None if it is unknown."""
        return None

    def commit(self, start: Offset | None, end: Offset) -> None:
        """Note that Spark has committed the micro-batch to *end*; *start* is where it began, if that is known."""

    def close(self) -> None:
        """Close what is open: the query has ended."""
