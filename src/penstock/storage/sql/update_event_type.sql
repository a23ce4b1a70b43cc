-- Let the event type :id be defined anew; whoever publishes by the old definition notices by its revision.
UPDATE penstock_event_type
SET category = :category, definition = :definition, fingerprint = :fingerprint, revision = revision + 1,
    updated_at = :at
WHERE id = :id
