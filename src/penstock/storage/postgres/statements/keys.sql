-- Select the keys of up to :limit events of a range, in order; :deletion is the kind of deletions.
SELECT "offset", key, kind IS NOT NULL AND kind = :deletion, received_at FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
ORDER BY "offset" LIMIT :limit
