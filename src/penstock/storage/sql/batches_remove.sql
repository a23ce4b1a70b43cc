-- Delete the published batches of a producer group, and with :unfinished those that tasks publish directly.
DELETE FROM penstock_batch
WHERE event_type_id = :event_type_id AND "group" = :group AND (done = chunks OR (:unfinished AND epoch IS NOT NULL))
