-- Select the batches :ids (a JSON array).
SELECT id, number, query, chunks, done, events, rejected, offsets, begun_at, updated_at, partitions, epoch
FROM penstock_batch
WHERE id IN (SELECT value::bigint FROM json_array_elements_text(:ids::json) AS value)
