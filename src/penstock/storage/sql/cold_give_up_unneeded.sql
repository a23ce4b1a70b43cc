-- Have files deleted whose events are all below the floor, and those that are being written since before :before.
UPDATE penstock_cold_file SET state = 'removed', changed_at = :at
WHERE state = 'writing' AND changed_at < :before
   OR state = 'sealed' AND stop <= (SELECT floor FROM penstock_partition WHERE id = penstock_cold_file.partition_id)
