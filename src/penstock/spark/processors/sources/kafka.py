"""Records of Kafka as a source on Spark: each partition of a topic a tranche, whose indices are Kafka's offsets."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.core.log.start import Word
from penstock.errors import BadParameter, RequirementMissing, Unavailable
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.feed_position import decode_tranche, encode_tranche
from penstock.spark.heads import report_loss
from penstock.spark.pipelines.kafka import HEADERS, Kafka, check_kafka
from penstock.spark.processors.sources.frames import FrameSource, Head
from penstock.spark.processors.sources.source import TrancheRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkKafkaSource"]

_PREFIX: Final = "kafka."
_KEY: Final = "make_valid_utf8(CAST(key AS string))"
_OWN: Final = f"concat(topic, '-', partition, '_', coalesce({_KEY}, ''))"
_HASHED: Final = f"coalesce(concat(topic, '-', {_KEY}), {_OWN})"


class SparkKafkaSource(FrameSource):
    """Records of Kafka. A partition is a tranche, `orders/3`; a stream is the records of one key, `orders-7`.

    An event's index is its offset; `raw` is the record's value, which must be JSON if a handler uses `data`; its `kind`
    is the header `ce_type`, or the topic. A record without a value, which marks a deletion, is `null`. Headers that
    are not texts are converted. Records without a key form one stream in each partition.

    The session needs Spark's connector and its own JVM: Spark Connect cannot query the ends of partitions.

    Args:
        kafka: The brokers and the topics. Options such as `kafka.isolation.level` apply.
        start: Where a processor without a position begins: at the `earliest` record, or after the `latest` one.
        is_hashed: True if records of one key are always in the same partition, as with Kafka's own partitioner until
            partitions are added. Otherwise the records of a key form a stream in each partition, `orders-3_7`.
        fail_on_loss: Raise EventsLost if records are gone before they were read; otherwise log it and continue. A
            recreated topic is detected only if it is shorter than before.

    Raises:
        BadParameter: no topic is named, or an argument has the wrong type; or (on reading) a topic does not exist.
        EventsLost: (on reading) records are gone, with *fail_on_loss*.
        RequirementMissing: (`open`) the session has no connector, or no JVM of its own.
        Unavailable: (on reading) no broker answers.
    """

    def __init__(
        self, kafka: Kafka, *, start: Word = "earliest", is_hashed: bool = True, fail_on_loss: bool = True
    ) -> None:
        super().__init__(start)
        check_kind("kafka", kafka, Kafka, "Kafka(brokers, topic)")
        check_flag("is_hashed", is_hashed)
        check_flag("fail_on_loss", fail_on_loss)
        names = [name.strip() for name in (kafka.topic or "").split(",")]
        if not all(names):
            raise BadParameter(parameter="topic", value=kafka.topic, allowed="one, or several separated by commas")
        self._names = list(dict.fromkeys(names))
        self._kafka = kafka
        self._stream = _HASHED if is_hashed else _OWN
        self._fails = fail_on_loss
        self.passes_over_loss = not fail_on_loss

    def open(self, spark: "SparkSession") -> None:
        """Begin, in a session."""
        check_kafka(spark)
        if not hasattr(spark, "_jvm"):
            install = "read it without Spark Connect, or bring it into a feed first: penstock spark import"
            raise RequirementMissing(needed="A session of Spark with a JVM", found="Spark Connect", install=install)
        super().open(spark)

    def heads(self) -> Mapping[str, Head]:
        """Ask the brokers where the partitions begin and end now."""
        with self._consumer() as consumer:
            java: Any = self.spark
            places = java._jvm.java.util.ArrayList()
            for name in self._names:
                for partition in sorted(each.partition() for each in self._of(consumer, name)):
                    places.add(java._jvm.org.apache.kafka.common.TopicPartition(name, partition))
            firsts, ends = consumer.beginningOffsets(places), consumer.endOffsets(places)
            return {
                encode_tranche(place.topic(), place.partition()): Head(firsts[place], ends[place]) for place in places
            }

    def stretch(self, tranche: str, start: int, end: int, events_max: int) -> TrancheRange | None:
        """Return a range of at most *events_max* records of a partition from an offset on."""
        cut = min(end, start + events_max)
        return TrancheRange(tranche, start, cut, cut - start, position=cut, is_tail=cut == end)

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where to begin in a partition: at its start, if there are positions in others of its topic."""
        topic, _, _ = tranche.rpartition("/")
        return super().beginning(tranche, [each for each in kept if each.rpartition("/")[0] == topic])

    def find_start(self, tranche: str, start: int, head: Head) -> int:
        """Return where reading goes on: at *start*, or where it can after records were lost.

        Raises:
            EventsLost: that is to fail.
        """
        if head.first <= start <= head.next:
            return start
        name, partition = decode_tranche(tranche)
        lost = head.first - start if start < head.first else None
        reason = "retention has removed them"
        if lost is None:
            reason = f"{start} was wanted next, and the partition ends at offset {head.next}"
        report_loss(self._fails, event_type=name, partition=partition, lost=lost, reason=reason)
        return head.first

    def rows(self, stretches: Sequence[TrancheRange]) -> "DataFrame":
        """Return the records of stretches."""
        places: dict[str, dict[str, tuple[int, int]]] = {}
        for each in stretches:
            name, partition = decode_tranche(each.tranche)
            places.setdefault(name, {})[str(partition)] = (each.start, each.end)

        def write_offsets(at: int) -> str:
            return json.dumps(
                {name: {each: ends[at] for each, ends in found.items()} for name, found in places.items()}
            )

        options = {
            **self._kafka.settings(),
            "assign": json.dumps({name: [int(each) for each in found] for name, found in places.items()}),
            "startingOffsets": write_offsets(0),
            "endingOffsets": write_offsets(1),
            "includeHeaders": "true",
            "failOnDataLoss": str(self._fails).lower(),
        }
        rows = self.spark.read.format("kafka").options(**options).load()
        named = rows.selectExpr("*", f"{HEADERS} AS texts")
        return named.selectExpr(
            "concat(topic, '/', partition) AS tranche",
            f"{self._stream} AS stream",
            "offset",
            f"{_KEY} AS key",
            "coalesce(texts['ce_type'], topic) AS kind",
            "to_json(texts) AS headers",
            "coalesce(CAST(value AS string), 'null') AS data",
            "unix_micros(timestamp) AS received",
        )

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many records each partition has behind its position now, at most."""
        return {
            tranche: head.next - min(max(int(positions.get(tranche, head.first)), head.first), head.next)
            for tranche, head in self.heads().items()
        }

    def _of(self, consumer: Any, name: str) -> Any:
        found = consumer.partitionsFor(name)
        if not found:
            raise BadParameter(parameter="topic", value=name, allowed="a topic that the brokers have")
        return found

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        """Lend a consumer of Kafka's own, in the JVM of the session."""
        from py4j.protocol import Py4JJavaError

        java: Any = self.spark
        jvm = java._jvm
        settings = jvm.java.util.HashMap()
        for name, value in self._kafka.settings().items():
            if name.startswith(_PREFIX):
                settings[name.removeprefix(_PREFIX)] = value
        settings["allow.auto.create.topics"] = "false"
        deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
        try:
            consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer(), deserializer())
            try:
                yield consumer
            finally:
                consumer.close()
        except Py4JJavaError as error:
            said = str(error.java_exception.toString())
            raise Unavailable(reason=f"Kafka does not answer: {said}") from error
