-- Begin a batch.
INSERT INTO penstock_batch (event_type_id, "group", number, query, chunks, done, events, rejected, offsets, begun_at,
                            updated_at)
VALUES (:event_type_id, :group, :number, :query, :chunks, 0, 0, 0, '{}', :at, :at)
RETURNING id
