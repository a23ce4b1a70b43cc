-- Of each of :ranges (a JSON array of [partition, start, stop]) the offset of the first event received at :at or later, else
-- its end. Found by halving: the time never goes back. Where an offset has no event any more, the next one stands for it.
WITH RECURSIVE halved (partition_id, low, high) AS (
    SELECT json_extract(asked.value, '$[0]'), json_extract(asked.value, '$[1]'), json_extract(asked.value, '$[2]')
    FROM json_each(:ranges) AS asked
    UNION ALL
    SELECT h.partition_id,
           iif(e.received_at < :at, (low + high) / 2 + 1, low),
           iif(e.received_at < :at, high, (low + high) / 2)
    FROM halved AS h
    LEFT JOIN penstock_event AS e
           ON e.place = (SELECT min(place) FROM penstock_event
                         WHERE place >= (h.partition_id << 40) + (low + high) / 2 AND place < h.partition_id + 1 << 40)
    WHERE low < high
)
SELECT partition_id, max(low) FROM halved GROUP BY partition_id
