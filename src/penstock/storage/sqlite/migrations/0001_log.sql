-- The log, event types, the outbox and consumers' positions. Safe beside a running service.

CREATE TABLE penstock_event_type (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    category   TEXT NOT NULL CHECK (category IN ('undefined', 'business', 'data')),
    epoch      INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- The last epoch of every name there ever was: a feed created again must not accept its predecessor's cursors. That of the
-- empty name, which no feed has, is the one that all names begin after.
CREATE TABLE penstock_epoch (
    name  TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO penstock_epoch VALUES ('', 0);

-- AUTOINCREMENT: an id is never used twice. No event type: dropped, its events wait to be purged.
CREATE TABLE penstock_partition (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type_id INTEGER REFERENCES penstock_event_type (id),
    number        INTEGER NOT NULL CHECK (number >= 0),
    floor         INTEGER NOT NULL DEFAULT 0,
    UNIQUE (event_type_id, number)
) STRICT;

-- Clustered by its key: a page is one range of neighbouring rows. `shape` is told in penstock/storage/sqlite/shape.py.
CREATE TABLE penstock_event (
    partition_id INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL CHECK ("offset" >= 0),
    received_at  INTEGER NOT NULL,
    shape        TEXT NOT NULL,
    key          TEXT,
    kind         TEXT,
    headers      TEXT,
    data         TEXT NOT NULL,
    PRIMARY KEY (partition_id, "offset")
) STRICT, WITHOUT ROWID;

-- Whoever writes REPLACE on purpose gets past these: a trigger against that would make every append a quarter slower.
CREATE TRIGGER penstock_event_is_never_changed BEFORE UPDATE ON penstock_event
BEGIN SELECT RAISE(ABORT, 'penstock: events are never changed'); END;

CREATE TRIGGER penstock_event_is_kept BEFORE DELETE ON penstock_event
WHEN OLD."offset" >= (SELECT floor FROM penstock_partition WHERE id = OLD.partition_id)
BEGIN SELECT RAISE(ABORT, 'penstock: events are removed by retention only'); END;

CREATE TABLE IF NOT EXISTS penstock_outbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type  TEXT NOT NULL CHECK (typeof(event_type) = 'text'),
    data        TEXT NOT NULL,
    key         TEXT,
    headers     TEXT,
    "partition" INTEGER,
    created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS penstock_outbox_waiting ON penstock_outbox (event_type, id);

CREATE TABLE penstock_rejected (
    id          INTEGER PRIMARY KEY,
    event_type  TEXT NOT NULL,
    data        TEXT NOT NULL,
    key         TEXT,
    headers     TEXT,
    "partition" INTEGER,
    created_at  TEXT NOT NULL,
    rejected_at TEXT NOT NULL,
    reason      TEXT NOT NULL
);

CREATE TABLE penstock_group (
    name       TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE penstock_position (
    "group"    TEXT NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source     TEXT NOT NULL,
    slice      TEXT NOT NULL,
    tranche    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    "offset"   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY ("group", source, slice, tranche)
) STRICT, WITHOUT ROWID;
