-- Select the newest batches of a producer group, or its batch :number.
SELECT id, number, query, chunks, done, events, rejected, offsets, begun_at, updated_at
FROM penstock_batch
WHERE event_type_id = :event_type_id AND "group" = :group AND (CAST(:number AS BIGINT) IS NULL OR number = :number)
ORDER BY number DESC LIMIT :limit
