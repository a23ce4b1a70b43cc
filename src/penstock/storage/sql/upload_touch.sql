-- Record that an upload continues, unless it is part of a batch or was dropped.
UPDATE penstock_upload SET updated_at = :at WHERE id = :id AND batch_id IS NULL AND event_type_id IS NOT NULL
