"""Each of Nakadi's own acceptance tests of subscriptions is played by a test of this folder, which names it."""

from pathlib import Path

import pytest

PLAYED = {
    "SubscriptionAT": """
        testSubscriptionBaseOperations testQuerySubscriptionByAuthReturnsOk testSubscriptionWithNullAuthorisation
        testSubscriptionWithManyEventTypesIsCreated testSubscriptionWithManyEventTypesIsNotCreated
        testListSubscriptions testSubscriptionAnnotationLabelIsUpdated testOffsetsCommit
        testSubscriptionWithReadFromCursorsWithoutInitialCursors testSubscriptionWithInitialCursors
        testGetSubscriptionCursors testGetSubscriptionCursorsEmpty testGetSubscriptionNotFound testDeleteSubscription
        testDeleteEventTypeRestriction testDeleteEventTypeRestrictionFeatureToggle
        testDeleteEventTypeRestrictionDeletable whenStatsOnNotInitializedSubscriptionThenCorrectResponse
        whenLightStatsOnNotInitializedSubscriptionThenCorrectResponse
        whenLightStatsOnActiveSubscriptionThenCorrectResponse whenStreamDuplicatePartitionsThenUnprocessableEntity
        whenStreamWrongPartitionsThenUnprocessableEntity
    """,
    "HilaAT": """
        whenStreamTimeoutReachedPossibleToCommit
        whenEventTypeRepartitionedTheNewSubscriptionShouldHaveUpdatedPartition
        whenStreamTimeoutReachedThenEventsFlushed whenOffsetIsCommittedNextSessionStartsFromNextEventAfterCommitted
        whenNoEventsThenFirstOffsetIsBEGIN whenNoEventsThenBeginOffsetIsUsed whenCommitVeryFirstEventThenOk
        whenWindowSizeIsSetItIsConsidered whenCommitTimeoutReachedSessionIsClosed
        whenStreamTimeoutReachedSessionIsClosed whenBatchLimitAndTimeoutAreSetTheyAreConsidered
        whenThereAreNoEmptySlotsThenConflict whenConnectionIsClosedByClientNakadiRecognizesIt testGetSubscriptionStat
        testGetSubscriptionStatWhenDirectAssignment testSubscriptionStatsMultiET whenConsumerIsBlocked403
        whenConsumerIsBlockedDuringConsumption whenStreamTimeout0ThenInfiniteStreaming
        whenResetCursorsThenStreamFromResetCursorOffset whenPatchThenCursorsAreInitializedToDefault
        whenPatchThenCursorsAreInitializedAndPatched
        whenCommitFailsThreeTimesAndSingleBatchEventFailsThreeTimesThenEventSkipped
        whenCursorsAreResetTheDLQStateIsResetAsWell whenIsLookingForDeadLetterAndCommitComesThenContinueLooking
        whenIsLookingForDeadLetterAndSendAllEventsOneByOneThenBackToNormalBatchSize
        shouldSkipPoisonPillAndDeadLetterFoundInTheQueueLater testDlqModeOnlySendsSingleEventAndNotMore
    """,
    "HilaRebalanceAT": """
        whenRebalanceThenPartitionsAreEquallyDistributedAndCommittedOffsetsAreConsidered
        whenDirectlyRequestPartitionsTheyAssignedCorrectly whenMixedStreamsThenPartitionsAssignedCorrectly
        checkDirectAssignmentCorrectlyCapturesAndReleasesPartition
        whenTwoStreamsDirectlyRequestOnePartitionThenConflict whenNotCommittedThenEventsAreReplayedAfterRebalance
        whenNoFreeSlotsForAutoClientThenConflict testCommitWhenDirectAssignment
        testAtLeastOneClientGets409OnTheSamePartitionRequest
    """,
    "HilaRepartitionAT": """
        testSubscriptionRepartitioningWithSingleEventType testSubscriptionRepartitioningWithMultipleEventTypes
        whenEventTypeRepartitionedSubscriptionStartsStreamNewPartitions shouldRepartitionTimelinedEventType
    """,
    "HilaDeleteEventsAT": """
        testConsumptionForDeletedEvents
    """,
    "CursorsServiceAT": """
        whenCommitCursorsThenTrue whenStreamIdInvalidThenException shouldThrowInvalidStreamIdWhenStreamIdIsNotUUID
        whenPartitionIsStreamedToDifferentClientThenFalse whenCommitOldCursorsThenFalse
        whenFirstCursorIsNotCommittedThenNextCursorsAreNotSkipped
        whenMultipleCursorsForSamePartitionThenResultsAreCorrect whenGetSubscriptionCursorsThenOk
    """,
    "SubscriptionConsumptionTest": """
        testAllEventsConsumed
    """,
    "UserJourneyAT": """
        userJourneyHila
    """,
}
"""The test methods, by their class in github.com/zalando/nakadi; `UserJourneyAT` has others without subscriptions.

SubscriptionConsumptionTest has five more: three about second timelines, which an event type does not have here, one
about Avro, which is not supported, and one about events that are addressed to one subscription, which are refused.
SubscriptionDbRepositoryTest calls classes directly: its rules are in test_subscriptions.py.
"""


@pytest.mark.parametrize("name", PLAYED)
def test_every_acceptance_test_is_named_by_a_test(name: str) -> None:
    here = Path(__file__)
    text = "".join(path.read_text() for path in here.parent.glob("test_*.py") if path != here)
    assert [method for method in PLAYED[name].split() if method not in text] == []
