-- Insert a producer, unless there is one of that name in its partition.
INSERT INTO penstock_producer (partition_id, name, epoch, begins, previous_epoch, previous_next, previous_last_offset,
                               claim_id, is_pinned, is_expired, updated_at)
VALUES (:partition_id, :name, :epoch, :begins, :previous_epoch, :previous_next,
        :previous_last_offset, :claim_id, :is_pinned, :is_expired, :at)
ON CONFLICT (partition_id, name) DO NOTHING
RETURNING id
