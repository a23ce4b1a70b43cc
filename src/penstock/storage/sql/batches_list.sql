-- Select the newest batches of a producer group.
SELECT id, number, query, chunks, done, events, rejected, offsets, begun_at, updated_at, partitions, epoch
FROM penstock_batch
WHERE event_type_id = :event_type_id AND "group" = :group
ORDER BY number DESC LIMIT :limit
