-- Forget producers that expired before :before, and those of dropped partitions, once none of their batches is left. Those
-- that somebody holds are left for another time: to wait for them here, in the order in which they lie, could be in a circle.
DELETE FROM penstock_producer
WHERE id IN (SELECT r.id FROM penstock_producer AS r
             WHERE (r.is_expired AND r.updated_at < :before
                    OR r.partition_id IN (SELECT id FROM penstock_partition WHERE event_type_id IS NULL))
               AND NOT EXISTS (SELECT 1 FROM penstock_produced AS b WHERE b.producer_id = r.id)
             FOR UPDATE SKIP LOCKED)
