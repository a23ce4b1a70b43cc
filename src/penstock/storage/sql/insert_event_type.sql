-- Insert an event type; its name is unique.
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, fingerprint, owner, created_at, updated_at)
VALUES (:name, :category, :epoch, 1, :definition, :fingerprint, :owner, :at, :at)
RETURNING id
