-- Delete some published batches: all but the newest :kept of each producer group, and those of groups that have published
-- nothing since :before.
DELETE FROM penstock_batch
WHERE id IN (SELECT b.id FROM penstock_batch AS b
             WHERE b.done = b.chunks
               AND (b.number < (SELECT number FROM penstock_batch
                                WHERE event_type_id = b.event_type_id AND "group" = b."group"
                                ORDER BY number DESC LIMIT 1 OFFSET :kept - 1)
                    OR b.updated_at < :before
                       AND NOT EXISTS (SELECT 1 FROM penstock_batch
                                       WHERE event_type_id = b.event_type_id AND "group" = b."group"
                                         AND updated_at >= :before))
             LIMIT :limit)
