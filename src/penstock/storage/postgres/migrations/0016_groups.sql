-- The streams that a processor has parked: an event of each could not be handled, and those behind it wait with it.
-- The digest of the stream's name stands for it, since the name may be long.
CREATE TABLE penstock_parked_stream (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "group"     text NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source      text COLLATE "C" NOT NULL,
    tranche     integer NOT NULL,
    digest      text COLLATE "C" NOT NULL,
    stream      text COLLATE "C" NOT NULL,
    first_index bigint NOT NULL,
    next_index  bigint NOT NULL,
    events      bigint NOT NULL,
    attempts    bigint NOT NULL,
    tag         text NOT NULL,
    detail      text NOT NULL,
    since       text NOT NULL,
    parked_at   bigint NOT NULL,
    request     text,
    UNIQUE ("group", source, tranche, digest)
);
CREATE INDEX penstock_parked_stream_of ON penstock_parked_stream ("group", id);
CREATE INDEX penstock_parked_stream_wanted ON penstock_parked_stream ("group", id) WHERE request IS NOT NULL;
CREATE INDEX penstock_parked_stream_in ON penstock_parked_stream (source);

-- Who of a processor's members is there, and who has which tranches: a JSON object. NULL: they do not share.
ALTER TABLE penstock_group ADD COLUMN shared text;
-- Where the positions of a group of the kind `reported` are kept. NULL: here.
ALTER TABLE penstock_group ADD COLUMN kept_at text;
