from penstock.spark.zeroeventhub.places import (
    LandedPlaces,
    PageRange,
    PartitionPlace,
    decode_landed,
    encode_landed,
    stretches_between,
)

BEGIN = LandedPlaces("6f1c", "r", {0: PartitionPlace(3, 70, "a"), 1: PartitionPlace(2, 9, "b")})


def test_offsets_are_read_as_they_were_written() -> None:
    assert decode_landed(encode_landed(BEGIN)) == BEGIN


def test_a_micro_batch_reads_the_pages_between_two_offsets() -> None:
    end = LandedPlaces(
        "6f1c", "r", {0: PartitionPlace(5, 90, "c"), 1: PartitionPlace(2, 9, "b"), 2: PartitionPlace(1, 4, "d")}
    )

    assert stretches_between(BEGIN, end) == [PageRange("r/0", 3, 5), PageRange("r/2", 0, 1)]
    assert stretches_between(BEGIN, BEGIN) == []


def test_first_micro_batch_reads_all_pages_for_any_start_offset() -> None:
    assert stretches_between(LandedPlaces("other", "r", {}), BEGIN) == [PageRange("r/0", 0, 3), PageRange("r/1", 0, 2)]


def test_another_run_goes_on_with_pages_of_its_own() -> None:
    begin = BEGIN.of_run("s")
    end = LandedPlaces("6f1c", "s", {0: PartitionPlace(2, 80, "c"), 1: begin.partitions[1]})

    assert begin.partitions == {0: PartitionPlace(0, 70, "a"), 1: PartitionPlace(0, 9, "b")}
    assert stretches_between(BEGIN, end) == [PageRange("s/0", 0, 2)]
    assert BEGIN.of_run("r") is BEGIN
