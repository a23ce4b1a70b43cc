from penstock.core.log.cursor import FIRST, LAST
from penstock.spark.zeroeventhub.micro_batch import MicroBatch
from penstock.spark.zeroeventhub.places import Landed, Place
from penstock.wire.log.reader.partitions import Discovery, Partition, ReadState, zeroeventhub_discovery

START = Landed("6f1c", "r", {0: Place(3, 70, "a"), 1: Place(2, 9, "b")})


def course(cursors: dict[int, str], known: Discovery | None = None) -> ReadState:
    made = ReadState(cursors, None, FIRST, {})
    made.update_partitions(known or zeroeventhub_discovery(2))
    return made


def batch(events_max: int | None = None, done: tuple[int, ...] = ()) -> MicroBatch:
    return MicroBatch(START, course({0: "a", 1: "b"}), done, events_max)


def test_without_a_limit_all_are_asked_for_whole_pages() -> None:
    assert batch().turn(500) == ([0, 1], 500)


def test_a_limit_is_shared_by_those_that_are_asked() -> None:
    assert batch(9).turn(500) == ([0, 1], 5)
    assert batch(9000).turn(500) == ([0, 1], 500)
    assert batch(1).turn(500) == ([0], 1)


def test_partition_read_last_is_read_after_the_others() -> None:
    micro_batch = batch(1)
    micro_batch.take(0, START.partitions[0])

    assert micro_batch.turn(500) == ([1], 1)


def test_micro_batch_is_enough_at_its_limit_or_when_no_partition_has_more() -> None:
    micro_batch = batch(10)
    micro_batch.take(0, Place(4, 79, "c"))
    assert not micro_batch.is_enough
    micro_batch.take(1, Place(3, 10, "d"))
    assert micro_batch.is_enough
    assert micro_batch.events == 10

    idle = batch(10)
    idle.leave(0)
    assert not idle.is_enough
    idle.leave(1)
    assert idle.is_enough
    assert not idle.is_news


def test_partitions_that_are_done_are_in_the_end_and_not_read() -> None:
    micro_batch = batch(done=(1,))

    assert list(micro_batch.places) == [0]
    assert micro_batch.end() == START


def test_micro_batch_ends_after_its_landed_pages_at_the_current_cursors() -> None:
    micro_batch = batch()
    micro_batch.take(0, Place(4, 79, "c"))
    micro_batch.course.cursors[0] = "d"  # A page without events has led there.

    assert micro_batch.is_news
    assert micro_batch.end() == Landed("6f1c", "r", {0: Place(4, 79, "d"), 1: Place(2, 9, "b")})


def test_resolved_last_cursor_is_progress() -> None:
    micro_batch = MicroBatch(Landed("6f1c", "r", {}), course({0: LAST, 1: LAST}), (), None)
    assert not micro_batch.is_news
    micro_batch.course.cursors[1] = "b"

    assert micro_batch.is_news
    assert micro_batch.end() == Landed("6f1c", "r", {0: Place(0, 0, LAST), 1: Place(0, 0, "b")})


def test_a_partition_that_is_gone_stays_while_its_pages_are_in_the_batch() -> None:
    for has_brought in (False, True):
        micro_batch = batch()
        if has_brought:
            micro_batch.take(0, Place(4, 79, "c"))
            micro_batch.course.cursors[0] = "c"
        micro_batch.course.update_partitions(Discovery(2, (Partition(1), Partition(2, cursor_from=(0,)))))
        places = {1: Place(2, 9, "b"), 2: Place(0, 0, "c" if has_brought else "a")}

        assert micro_batch.end().partitions == (places | {0: Place(4, 79, "c")} if has_brought else places)
