-- Have the partition :partition_id go on at :offset or later, if it has no event from there on.
UPDATE penstock_partition SET continues_at = :offset
WHERE id = :partition_id AND continues_at < :offset
  AND NOT EXISTS (SELECT 1 FROM penstock_event
                  WHERE place >= (:partition_id << 40) + :offset AND place < :partition_id + 1 << 40)
