-- Replace the definition of the event type :id; publishers with the old definition detect it by the revision.
UPDATE penstock_event_type
SET category = :category, definition = :definition, fingerprint = :fingerprint, revision = revision + 1,
    updated_at = :at
WHERE id = :id
