-- Delete producers that expired before :before, and those of dropped partitions, if they have no stored batches.
DELETE FROM penstock_producer
WHERE (is_expired AND updated_at < :before
       OR partition_id IN (SELECT id FROM penstock_partition WHERE event_type_id IS NULL))
  AND NOT EXISTS (SELECT 1 FROM penstock_produced AS b WHERE b.producer_id = penstock_producer.id)
