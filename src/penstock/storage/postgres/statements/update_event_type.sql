-- Let the event type %(id)s be defined anew; whoever publishes by the old definition notices by its revision.
UPDATE penstock_event_type
SET category = %(category)s, definition = %(definition)s, fingerprint = %(fingerprint)s, revision = revision + 1,
    updated_at = %(at)s
WHERE id = %(id)s
