-- A batch of a producer group, its newest where %(number)s is null.
SELECT id, number, query, chunks, done, events, rejected, offsets, begun_at, updated_at, partitions, epoch
FROM penstock_batch
WHERE event_type_id = %(event_type_id)s AND "group" = %(group)s
  AND (%(number)s::bigint IS NULL OR number = %(number)s::bigint)
ORDER BY number DESC LIMIT 1
