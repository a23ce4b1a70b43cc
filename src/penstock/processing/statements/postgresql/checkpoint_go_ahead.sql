-- Streams are ahead, up to an index: a JSON array of arrays of tranche, stream and index.
INSERT INTO {table}_ahead (processor, tranche, stream, next_index)
SELECT :processor, value ->> 0, value ->> 1, CAST(value ->> 2 AS bigint)
FROM jsonb_array_elements(CAST(:ahead AS jsonb))
ON CONFLICT (processor, tranche, stream) DO UPDATE SET next_index = excluded.next_index
