-- Select the batches :ids (a JSON array).
SELECT id, number, query, chunks, done, events, rejected, offsets, begun_at, updated_at
FROM penstock_batch
WHERE id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
