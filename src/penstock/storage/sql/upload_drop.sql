-- Drop an upload, unless it is part of a batch.
UPDATE penstock_upload SET event_type_id = NULL WHERE id = :id AND batch_id IS NULL
