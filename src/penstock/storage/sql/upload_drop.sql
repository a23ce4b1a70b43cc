-- Let an upload be nobody's, unless it is of a batch.
UPDATE penstock_upload SET event_type_id = NULL WHERE id = :id AND batch_id IS NULL
