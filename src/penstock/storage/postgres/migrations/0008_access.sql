-- Who may do what: the tokens of callers, and the owners of event types, consumer groups and producers. Safe beside a running
-- service.

-- A secret that a caller sends, as its SHA-256 digest. A rotated one stays until it expires.
CREATE TABLE penstock_token (
    id           text PRIMARY KEY,
    digest       bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    data_type    text NOT NULL,
    application  text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    used_at      bigint
);

-- DATA_TYPE:VALUE of the caller that has created it, or was the first to use it; NULL: nobody so far.
ALTER TABLE penstock_event_type ADD COLUMN owner text;
ALTER TABLE penstock_group ADD COLUMN owner text;

-- The owner of a producer group, and of its batches, in all partitions of an event type.
CREATE TABLE penstock_producer_owner (
    event_type_id bigint NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    "group"       text NOT NULL,
    owner         text NOT NULL,
    PRIMARY KEY (event_type_id, "group")
);
