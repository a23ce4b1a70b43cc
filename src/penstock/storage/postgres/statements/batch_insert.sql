-- Begin a batch.
INSERT INTO penstock_batch (event_type_id, "group", number, query, chunks, done, events, rejected, offsets, begun_at,
                            updated_at, partitions, epoch)
VALUES (%(event_type_id)s, %(group)s, %(number)s, %(query)s, %(chunks)s, 0, 0, 0, '{}', %(at)s, %(at)s,
        %(partitions)s, %(epoch)s)
RETURNING id
