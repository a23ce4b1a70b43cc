-- Record the holes :ranges (a JSON array of pairs) of the partition :partition_id.
INSERT INTO penstock_hole (partition_id, start, stop)
SELECT :partition_id, CAST(each ->> 0 AS bigint), CAST(each ->> 1 AS bigint)
FROM jsonb_array_elements(CAST(:ranges AS jsonb)) AS each
