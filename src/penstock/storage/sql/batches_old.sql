-- Delete some published batches: all but the newest :kept of each producer group, and those of groups that have published
-- nothing since :before, unless one of the group's producers is pinned.
DELETE FROM penstock_batch
WHERE id IN (SELECT b.id FROM penstock_batch AS b
             WHERE b.done = b.chunks
               AND (b.number < (SELECT number FROM penstock_batch
                                WHERE event_type_id = b.event_type_id AND "group" = b."group"
                                ORDER BY number DESC LIMIT 1 OFFSET :kept - 1)
                    OR b.updated_at < :before
                       AND NOT EXISTS (SELECT 1 FROM penstock_batch
                                       WHERE event_type_id = b.event_type_id AND "group" = b."group"
                                         AND updated_at >= :before)
                       AND NOT EXISTS (SELECT 1 FROM penstock_producer AS r
                                       JOIN penstock_partition AS p ON p.id = r.partition_id
                                       WHERE p.event_type_id = b.event_type_id AND r.name = b."group" AND r.is_pinned))
             LIMIT :limit)
