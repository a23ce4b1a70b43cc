-- Record the state of a producer.
UPDATE penstock_producer
SET epoch = :epoch, begins = :begins, previous_epoch = :previous_epoch, previous_next = :previous_next,
    previous_last_offset = :previous_last_offset, claim_id = :claim_id, is_pinned = :is_pinned,
    is_expired = :is_expired, updated_at = :at
WHERE id = :id
