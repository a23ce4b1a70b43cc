-- The streams that a processor has parked: an event of each could not be handled, and those behind it wait with it.
-- The digest of the stream's name stands for it, since the name may be long.
CREATE TABLE penstock_parked_stream (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    "group"     TEXT NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source      TEXT NOT NULL,
    tranche     INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    stream      TEXT NOT NULL,
    first_index INTEGER NOT NULL,
    next_index  INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    tag         TEXT NOT NULL,
    detail      TEXT NOT NULL,
    since       TEXT NOT NULL,
    parked_at   INTEGER NOT NULL,
    request     TEXT,
    UNIQUE ("group", source, tranche, digest)
) STRICT;
CREATE INDEX penstock_parked_stream_of ON penstock_parked_stream ("group", id);
CREATE INDEX penstock_parked_stream_wanted ON penstock_parked_stream ("group", id) WHERE request IS NOT NULL;
CREATE INDEX penstock_parked_stream_in ON penstock_parked_stream (source);

-- Who of a processor's members is there, and who has which tranches: a JSON object. NULL: they do not share.
ALTER TABLE penstock_group ADD COLUMN shared TEXT;
-- Where the positions of a group of the kind `reported` are kept. NULL: here.
ALTER TABLE penstock_group ADD COLUMN kept_at TEXT;
