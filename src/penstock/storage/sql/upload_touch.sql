-- Note that an upload goes on, unless it is of a batch or nobody's.
UPDATE penstock_upload SET updated_at = :at WHERE id = :id AND batch_id IS NULL AND event_type_id IS NOT NULL
