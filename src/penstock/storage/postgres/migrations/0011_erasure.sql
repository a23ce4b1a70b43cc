-- Requests to erase the events of a key, and what was erased. Safe beside a running service.

-- The key is deleted once its events are; its digest stays, as proof. `ends` (JSON) has the offset of each partition up to
-- which events are erased. Each transaction that erases something adds to the counts.
CREATE TABLE penstock_erasure (
    id           text PRIMARY KEY,
    event_type   text NOT NULL,
    epoch        bigint NOT NULL,
    ends         text NOT NULL,
    key          text,
    digest       text NOT NULL,
    requested_by text,
    requested_at bigint NOT NULL,
    finished_at  bigint,
    events       bigint NOT NULL DEFAULT 0,
    parked_keys  bigint NOT NULL DEFAULT 0,
    rejected     bigint NOT NULL DEFAULT 0,
    dead_letters bigint NOT NULL DEFAULT 0
);
