-- Count the producers of a partition that have not expired.
SELECT count(*) FROM penstock_producer WHERE partition_id = :partition_id AND NOT is_expired
