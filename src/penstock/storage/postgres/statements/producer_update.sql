-- Record what a producer is now.
UPDATE penstock_producer
SET epoch = %(epoch)s, begins = %(begins)s, previous_epoch = %(previous_epoch)s, previous_next = %(previous_next)s,
    previous_last_offset = %(previous_last_offset)s, claim_id = %(claim_id)s, is_pinned = %(is_pinned)s,
    is_expired = %(is_expired)s, updated_at = %(at)s
WHERE id = %(id)s
