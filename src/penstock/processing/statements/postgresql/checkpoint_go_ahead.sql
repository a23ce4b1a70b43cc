-- Streams are ahead, up to an index: a JSON array of arrays of tranche, digest, stream and index.
INSERT INTO {table}_ahead (processor, tranche, digest, stream, next_index)
SELECT :processor, value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS bigint)
FROM jsonb_array_elements(CAST(:ahead AS jsonb))
ON CONFLICT (processor, tranche, digest) DO UPDATE SET next_index = excluded.next_index
