-- Count the offsets of the partition :partition_id from :start on whose events were removed one by one.
SELECT CAST(coalesce(sum(stop - greatest(start, :start)), 0) AS bigint) FROM penstock_hole
WHERE partition_id = :partition_id AND stop > :start
