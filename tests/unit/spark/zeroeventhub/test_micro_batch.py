from penstock.core.log.cursor import FIRST
from penstock.spark.zeroeventhub.micro_batch import FeedMicroBatch
from penstock.spark.zeroeventhub.places import LandedPlaces, PartitionPlace
from penstock.wire.log.reader.partitions import Discovery, Partition, ReadState, zeroeventhub_discovery

START = LandedPlaces("6f1c", "r", {0: PartitionPlace(3, 70, "a"), 1: PartitionPlace(2, 9, "b")})


def batch(events_max: int | None = None) -> FeedMicroBatch:
    course = ReadState({0: "a", 1: "b"}, None, FIRST, {})
    course.update_partitions(zeroeventhub_discovery(2))
    return FeedMicroBatch(START, course, (), events_max)


def test_a_limit_is_shared_by_those_that_are_asked() -> None:
    assert batch(9).turn(500) == ([0, 1], 5)
    assert batch(9000).turn(500) == ([0, 1], 500)
    assert batch(1).turn(500) == ([0], 1)


def test_partition_read_last_is_read_after_the_others() -> None:
    micro_batch = batch(1)
    micro_batch.take(0, START.partitions[0])

    assert micro_batch.turn(500) == ([1], 1)


def test_a_partition_that_is_gone_stays_while_its_pages_are_in_the_batch() -> None:
    for has_brought in (False, True):
        micro_batch = batch()
        if has_brought:
            micro_batch.take(0, PartitionPlace(4, 79, "c"))
            micro_batch.course.cursors[0] = "c"
        micro_batch.course.update_partitions(Discovery(2, (Partition(1), Partition(2, cursor_from=(0,)))))
        places = {1: PartitionPlace(2, 9, "b"), 2: PartitionPlace(0, 0, "c" if has_brought else "a")}

        assert micro_batch.end().partitions == (places | {0: PartitionPlace(4, 79, "c")} if has_brought else places)
