-- Let a stream's time to commit begin anew.
UPDATE penstock_session SET extensions = extensions + 1 WHERE id = :id
