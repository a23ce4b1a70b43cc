-- Delete some published batches, but keep the newest :kept of each producer group.
DELETE FROM penstock_batch
WHERE id IN (SELECT b.id FROM penstock_batch AS b
             WHERE b.done = b.chunks
               AND b.number < (SELECT number FROM penstock_batch
                               WHERE event_type_id = b.event_type_id AND "group" = b."group"
                               ORDER BY number DESC LIMIT 1 OFFSET :kept - 1)
             LIMIT :limit)
