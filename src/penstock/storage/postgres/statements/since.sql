-- Of each of the ranges of :ids, from :starts to before :stops, the offset of the first event received at :at or
-- later, else its end. Found by halving: the time never goes back. Where an offset has no event any more, the next one
-- stands for it.
WITH RECURSIVE halved (partition_id, low, high) AS (
    SELECT * FROM unnest(:ids::integer[], :starts::bigint[], :stops::bigint[])
    UNION ALL
    SELECT h.partition_id,
           CASE WHEN e.received_at < :at THEN (low + high) / 2 + 1 ELSE low END,
           CASE WHEN e.received_at < :at THEN high ELSE (low + high) / 2 END
    FROM halved AS h
    LEFT JOIN LATERAL (SELECT received_at FROM penstock_event
                       WHERE partition_id = h.partition_id AND "offset" >= (low + high) / 2
                       ORDER BY "offset" LIMIT 1) AS e ON true
    WHERE low < high
)
SELECT partition_id, max(low) FROM halved GROUP BY partition_id
