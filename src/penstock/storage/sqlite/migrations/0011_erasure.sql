-- Requests to erase the events of a key, and what was erased. Safe beside a running service.

-- The key is deleted once its events are; its digest stays, as proof. `ends` (JSON) has the offset of each partition up to
-- which events are erased. Each transaction that erases something adds to the counts.
CREATE TABLE penstock_erasure (
    id           TEXT PRIMARY KEY,
    event_type   TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    ends         TEXT NOT NULL,
    key          TEXT,
    digest       TEXT NOT NULL,
    requested_by TEXT,
    requested_at INTEGER NOT NULL,
    finished_at  INTEGER,
    events       INTEGER NOT NULL DEFAULT 0,
    parked_keys  INTEGER NOT NULL DEFAULT 0,
    rejected     INTEGER NOT NULL DEFAULT 0,
    dead_letters INTEGER NOT NULL DEFAULT 0
) STRICT;
