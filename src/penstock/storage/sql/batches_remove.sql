-- Delete the published batches of a producer group.
DELETE FROM penstock_batch WHERE event_type_id = :event_type_id AND "group" = :group AND done = chunks
