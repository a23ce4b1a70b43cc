-- Delete the events of the partition :partition_id at :offsets (a JSON array).
DELETE FROM penstock_event WHERE place IN (SELECT (:partition_id << 40) + value FROM json_each(:offsets))
