-- Delete producers that expired before :before, and those of dropped partitions, if they have no stored batches. Skip
-- locked ones: waiting for them in the order of the table could deadlock.
DELETE FROM penstock_producer
WHERE id IN (SELECT r.id FROM penstock_producer AS r
             WHERE (r.is_expired AND r.updated_at < :before
                    OR r.partition_id IN (SELECT id FROM penstock_partition WHERE event_type_id IS NULL))
               AND NOT EXISTS (SELECT 1 FROM penstock_produced AS b WHERE b.producer_id = r.id)
             FOR UPDATE SKIP LOCKED)
