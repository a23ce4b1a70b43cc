-- Streams are ahead no more, since the position has passed them: a JSON array of arrays of tranche and digest.
DELETE FROM {table}_ahead
WHERE processor = :processor AND (tranche, digest) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:met))
