-- Record a producer, unless there is one of that name in its partition.
INSERT INTO penstock_producer (partition_id, name, epoch, begins, previous_epoch, previous_next, previous_last_offset,
                               claim_id, is_pinned, is_expired, updated_at)
VALUES (%(partition_id)s, %(name)s, %(epoch)s, %(begins)s, %(previous_epoch)s, %(previous_next)s,
        %(previous_last_offset)s, %(claim_id)s, %(is_pinned)s, %(is_expired)s, %(at)s)
ON CONFLICT (partition_id, name) DO NOTHING
RETURNING id
