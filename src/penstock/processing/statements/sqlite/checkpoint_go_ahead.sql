-- Streams are ahead, up to an index: a JSON array of arrays of tranche, digest, stream and index.
INSERT INTO {table}_ahead (processor, tranche, digest, stream, next_index)
SELECT :processor, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(:ahead) WHERE true
ON CONFLICT (processor, tranche, digest) DO UPDATE SET next_index = excluded.next_index
