-- What outlives the events that are removed. Safe beside a running service.

-- When the last event was received that the partition no longer has, so that times do not go back where the clock does.
ALTER TABLE penstock_partition ADD COLUMN received_at bigint NOT NULL DEFAULT 0;

-- Where compaction has come to: all events below compacted_stop that had a newer one below it are gone. compacted_events
-- is the number of events that were left below it, compacted_deletion when the oldest deletion among them was received.
ALTER TABLE penstock_partition ADD COLUMN compacted_stop bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_partition ADD COLUMN compacted_events bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_partition ADD COLUMN compacted_deletion bigint;
