-- How many producers of a partition are not expired.
SELECT count(*) FROM penstock_producer WHERE partition_id = :partition_id AND NOT is_expired
