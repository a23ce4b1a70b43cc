-- As `lines`, with NULL in place of events that are left out: those of some kinds (:kinds, in lower case) are kept, or
-- all but these where :skip is true.
SELECT CASE WHEN (lower(coalesce(kind, :default::text) COLLATE "C") = ANY(:kinds::text[])) <> :skip THEN data END
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
  AND (SELECT sum(octet_length(data)) FROM penstock_event
       WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) <= :bytes_max
ORDER BY "offset"
