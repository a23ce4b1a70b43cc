-- Delete the events of the partition :partition_id at :offsets (a JSON array).
DELETE FROM penstock_event
WHERE partition_id = :partition_id AND "offset" = ANY(ARRAY(SELECT CAST(value AS bigint) FROM json_each(:offsets)))
