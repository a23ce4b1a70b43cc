-- Have files deleted whose events are all below the floor, and those that are being written since before :before, or
-- since after :after, by a clock that was set back.
UPDATE penstock_cold_file SET state = 'removed', changed_at = :at
WHERE state = 'writing' AND (changed_at < :before OR changed_at > :after)
   OR state = 'sealed' AND stop <= (SELECT floor FROM penstock_partition WHERE id = penstock_cold_file.partition_id)
