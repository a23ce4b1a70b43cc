-- Of each of the partitions :ids when the first event at its offset, in :offsets, or after it was received; left out
-- where there is none. One look into the index for each.
SELECT asked.id, e.received_at
FROM unnest(:ids::integer[], :offsets::bigint[]) AS asked (id, "offset")
CROSS JOIN LATERAL (SELECT received_at FROM penstock_event
                    WHERE partition_id = asked.id AND "offset" >= asked."offset"
                    ORDER BY "offset" LIMIT 1) AS e
