-- Note that an upload goes on, unless it is of a batch or nobody's.
UPDATE penstock_upload SET updated_at = %(at)s WHERE id = %(id)s AND batch_id IS NULL AND event_type_id IS NOT NULL
