-- Fingerprints of event types, by which a publisher in its own transaction knows that what it remembers is still so. What was
-- there before gets one that no definition has. Safe beside a running service.
ALTER TABLE penstock_event_type ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
UPDATE penstock_event_type SET fingerprint = lower(hex(randomblob(16)));
