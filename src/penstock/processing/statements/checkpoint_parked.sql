-- What a processor has parked, the oldest first.
SELECT stream, tranche, first_index, next_index, events, attempts, tag, detail, since, parked_at, request
FROM {table}_parked WHERE processor = :processor ORDER BY parked_at, stream, tranche
