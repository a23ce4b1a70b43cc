"""Which test plays which of Nakadi's own acceptance tests of subscriptions (appendix A), so that none is missing."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES: dict[str, dict[str, str]] = {}
"""The test that plays it, by class and method."""
for _line in """
SubscriptionAT
  testSubscriptionBaseOperations
    test_what_is_created_is_shown_whole_and_found_again
  testQuerySubscriptionByAuthReturnsOk
    test_who_may_read_finds_it
  testSubscriptionWithNullAuthorisation
    test_a_field_that_breaks_a_rule_is_refused
  testSubscriptionWithManyEventTypesIsCreated
    test_one_may_read_many_event_types
  testSubscriptionWithManyEventTypesIsNotCreated
    test_there_is_a_most_of_partitions_in_all
  testListSubscriptions
    test_the_newest_come_first
  testSubscriptionAnnotationLabelIsUpdated
    test_what_is_attached_and_who_may_can_be_changed
  testOffsetsCommit
    test_an_offset_far_beyond_is_taken_by_a_strict_hub
  testSubscriptionWithReadFromCursorsWithoutInitialCursors
    test_it_needs_cursors_to_begin_at_cursors
  testSubscriptionWithInitialCursors
    test_cursors_are_where_it_begins
  testGetSubscriptionCursors
    test_cursors_are_shown_as_they_were_committed
  testGetSubscriptionCursorsEmpty
    test_there_are_no_cursors_before_it_has_begun
  testGetSubscriptionNotFound
    test_one_that_is_not_there_is_named
  testDeleteSubscription
    test_one_that_is_deleted_is_gone_with_its_cursors
  testDeleteEventTypeRestriction
    test_an_event_type_that_is_read_does_not_go
  testDeleteEventTypeRestrictionFeatureToggle
    test_an_event_type_goes_with_its_subscriptions_where_that_is_on
  testDeleteEventTypeRestrictionDeletable
    test_an_archive_stands_in_no_ones_way
  whenStatsOnNotInitializedSubscriptionThenCorrectResponse
    test_before_it_has_begun_there_are_no_counts
  whenLightStatsOnNotInitializedSubscriptionThenCorrectResponse
    test_one_whose_status_is_asked_for_tells_it
  whenLightStatsOnActiveSubscriptionThenCorrectResponse
    test_a_list_says_who_has_what_without_counts
  whenStreamDuplicatePartitionsThenUnprocessableEntity
    test_partitions_are_asked_for_once
  whenStreamWrongPartitionsThenUnprocessableEntity
    test_partitions_are_those_of_the_subscription
HilaAT
  whenStreamTimeoutReachedPossibleToCommit
    test_what_was_sent_can_be_committed_after_the_stream_has_ended
  whenEventTypeRepartitionedTheNewSubscriptionShouldHaveUpdatedPartition
    test_one_made_after_partitions_were_added_reads_all_of_them
  whenStreamTimeoutReachedThenEventsFlushed
    test_what_is_buffered_is_sent_when_the_time_of_a_stream_is_over
  whenOffsetIsCommittedNextSessionStartsFromNextEventAfterCommitted
    test_a_commit_is_seen_by_whoever_comes_next
  whenNoEventsThenFirstOffsetIsBEGIN
    test_the_first_line_of_an_empty_partition_is_before_its_first_event
  whenNoEventsThenBeginOffsetIsUsed
    test_the_beginning_is_outdated_where_nothing_is_committed
  whenCommitVeryFirstEventThenOk
    test_the_first_event_is_committed_by_a_plain_number
  whenWindowSizeIsSetItIsConsidered
    test_a_window_that_is_full_sends_nothing_more
  whenCommitTimeoutReachedSessionIsClosed
    test_a_stream_ends_when_nothing_is_committed_in_time
  whenStreamTimeoutReachedSessionIsClosed
    test_a_stream_ends_after_its_time_though_all_is_committed
  whenBatchLimitAndTimeoutAreSetTheyAreConsidered
    test_batches_are_as_large_as_they_may_or_as_late
  whenThereAreNoEmptySlotsThenConflict
    test_there_is_no_room_for_more_streams_than_partitions
  whenConnectionIsClosedByClientNakadiRecognizesIt
    test_a_partition_waits_for_the_commit_of_one_who_has_left
  testGetSubscriptionStat
    test_what_is_not_committed_is_counted
  testGetSubscriptionStatWhenDirectAssignment
    test_one_that_was_asked_for_is_direct
  testSubscriptionStatsMultiET
    test_each_event_type_has_an_item
  whenConsumerIsBlocked403
    test_who_is_blocked_does_not_read
  whenConsumerIsBlockedDuringConsumption
    test_who_is_blocked_on_the_way_is_told_so
  whenStreamTimeout0ThenInfiniteStreaming
    test_a_stream_timeout_of_0_is_none
  whenResetCursorsThenStreamFromResetCursorOffset
    test_streams_end_and_the_next_one_goes_on_behind_the_cursor
  whenPatchThenCursorsAreInitializedToDefault
    test_an_empty_list_only_begins_it_at_its_end
  whenPatchThenCursorsAreInitializedAndPatched
    test_one_cursor_begins_it_and_sets_that_partition
  whenCommitFailsThreeTimesAndSingleBatchEventFailsThreeTimesThenEventSkipped
    test_an_event_that_fails_by_itself_as_often_is_left_out
  whenCursorsAreResetTheDLQStateIsResetAsWell
    test_a_reset_of_cursors_forgets_what_has_failed
  whenIsLookingForDeadLetterAndCommitComesThenContinueLooking
    test_a_commit_does_not_end_the_search_within_a_batch
  whenIsLookingForDeadLetterAndSendAllEventsOneByOneThenBackToNormalBatchSize
    test_batches_are_whole_again_behind_one_whose_events_were_all_fine
  shouldSkipPoisonPillAndDeadLetterFoundInTheQueueLater
    test_an_event_that_is_given_up_is_found_in_the_queue
  testDlqModeOnlySendsSingleEventAndNotMore
    test_one_event_alone_is_outstanding_while_it_is_searched
HilaRebalanceAT
  whenRebalanceThenPartitionsAreEquallyDistributedAndCommittedOffsetsAreConsidered
    test_partitions_are_shared_evenly_and_go_on_where_they_were_committed
  whenDirectlyRequestPartitionsTheyAssignedCorrectly
    test_partitions_that_are_asked_for_are_given
  whenMixedStreamsThenPartitionsAssignedCorrectly
    test_the_rest_is_shared_by_those_who_ask_for_none
  checkDirectAssignmentCorrectlyCapturesAndReleasesPartition
    test_a_partition_that_is_asked_for_is_taken_and_given_back
  whenTwoStreamsDirectlyRequestOnePartitionThenConflict
    test_a_partition_is_asked_for_once
  whenNotCommittedThenEventsAreReplayedAfterRebalance
    test_what_was_not_committed_is_sent_again_to_the_newcomer
  whenNoFreeSlotsForAutoClientThenConflict
    test_partitions_that_are_asked_for_leave_fewer_slots
  testCommitWhenDirectAssignment
    test_what_was_sent_of_a_partition_that_was_asked_for_is_committed
  testAtLeastOneClientGets409OnTheSamePartitionRequest
    test_as_many_get_a_slot_as_there_are
HilaRepartitionAT
  testSubscriptionRepartitioningWithSingleEventType
    test_partitions_of_other_event_types_stay_as_they_are
  testSubscriptionRepartitioningWithMultipleEventTypes
    test_partitions_of_other_event_types_stay_as_they_are
  whenEventTypeRepartitionedSubscriptionStartsStreamNewPartitions
    test_streams_end_when_partitions_are_added_and_the_next_one_has_them
  shouldRepartitionTimelinedEventType
    test_streams_end_when_partitions_are_added_and_the_next_one_has_them
HilaDeleteEventsAT
  testConsumptionForDeletedEvents
    test_what_was_deleted_takes_offsets_and_is_not_sent
CursorsServiceAT
  whenCommitCursorsThenTrue
    test_a_later_cursor_commits_all_before_it
  whenStreamIdInvalidThenException
    test_a_stream_that_is_not_there_cannot_commit
  shouldThrowInvalidStreamIdWhenStreamIdIsNotUUID
    test_the_id_of_a_stream_is_a_uuid
  whenPartitionIsStreamedToDifferentClientThenFalse
    test_a_partition_of_another_stream_cannot_be_committed
  whenCommitOldCursorsThenFalse
    test_what_is_not_later_is_outdated
  whenFirstCursorIsNotCommittedThenNextCursorsAreNotSkipped
    test_one_that_is_outdated_does_not_stop_later_ones
  whenMultipleCursorsForSamePartitionThenResultsAreCorrect
    test_cursors_are_applied_in_their_order
  whenGetSubscriptionCursorsThenOk
    test_a_later_cursor_commits_all_before_it
SubscriptionConsumptionTest
  testAllEventsConsumed
    test_a_stream_sends_what_follows_each_offset_that_it_was_given
UserJourneyAT
  userJourneyHila
    test_the_journey_of_a_user
""".splitlines():
    if not _line.startswith(" "):
        _methods = CASES.setdefault(_line, {}) if _line else {}
    elif not _line.startswith("    "):
        _method = _line.strip()
    else:
        _methods[_method] = _line.strip()
LEFT_OUT: dict[str, dict[str, str]] = {
    "SubscriptionConsumptionTest": {
        "test2TimelinesInaRow": "there is one timeline of each event type",
        "test2TimelinesInaRowNoBegin": "there is one timeline of each event type",
        "testInTimeCursorsCorrect": "there is one timeline of each event type",
        "testBlockedEventsNotConsumedJson": "events cannot be tagged for one subscription: the header is refused",
        "testBlockedEventsNotConsumedAvro": "there is no Avro",
    },
}
"""And why. SubscriptionDbRepositoryTest calls classes directly: what it shows is in test_subscription_lists.py."""
COUNTS = {
    "SubscriptionAT": 22,
    "HilaAT": 28,
    "HilaRebalanceAT": 9,
    "HilaRepartitionAT": 4,
    "HilaDeleteEventsAT": 1,
    "CursorsServiceAT": 8,
    "SubscriptionConsumptionTest": 6,
    "UserJourneyAT": 1,
}
"""How many the appendix lists of those classes; of the last one, how many are about subscriptions."""


def documented() -> dict[str, str]:
    """What each test of this folder says of itself."""
    found = {}
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = found.get(node.name, "") + (ast.get_docstring(node) or "")
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_acceptance_test_is_played(name: str) -> None:
    told = documented()
    missing = [case for case, test in CASES[name].items() if case not in told.get(test, "")]
    assert not missing, "no test of that name says that it plays it"


@pytest.mark.parametrize("name", COUNTS)
def test_no_acceptance_test_is_forgotten(name: str) -> None:
    left_out = LEFT_OUT.get(name, {})
    assert len(CASES.get(name, {}).keys() | left_out.keys()) == COUNTS[name]
