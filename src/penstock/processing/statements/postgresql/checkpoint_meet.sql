-- Streams are ahead no more, since the position has passed them: a JSON array of arrays of tranche and digest.
DELETE FROM {table}_ahead USING jsonb_array_elements(CAST(:met AS jsonb))
WHERE processor = :processor AND tranche = value ->> 0 AND digest = value ->> 1
