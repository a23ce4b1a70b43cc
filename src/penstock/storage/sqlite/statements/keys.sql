-- Select the keys of up to :limit events of a range, in order; :deletion is the kind of deletions.
SELECT place - (:partition_id << 40), key, kind IS NOT NULL AND kind = :deletion, received_at FROM penstock_event
WHERE place >= (:partition_id << 40) + :start AND place < (:partition_id << 40) + :stop
ORDER BY place LIMIT :limit
