-- Select up to :limit parked streams of a group with an id above :after, oldest first; with :requested only those of which
-- something is wanted.
SELECT id, source, tranche, stream, first_index, next_index, events, attempts, tag, detail, since, parked_at, request
FROM penstock_parked_stream
WHERE "group" = :group AND id > :after AND (NOT CAST(:requested AS BOOLEAN) OR request IS NOT NULL)
ORDER BY id LIMIT :limit
