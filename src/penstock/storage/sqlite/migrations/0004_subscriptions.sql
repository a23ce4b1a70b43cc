-- Subscriptions: what each is, who is streaming it, and what was set aside; and who has moved a consumer. Safe beside a
-- running service.

-- Its name is that of its consumer group. The revision moves with whatever those who stream it have to hear of. Whoever
-- changes anything of a subscription has locked its row.
CREATE TABLE penstock_subscription (
    id                 TEXT PRIMARY KEY REFERENCES penstock_group (name) ON DELETE CASCADE,
    identity           TEXT NOT NULL UNIQUE,
    owning_application TEXT NOT NULL,
    definition         TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    revision           INTEGER NOT NULL,
    resetting_until    INTEGER
) STRICT;
CREATE INDEX penstock_subscription_newest ON penstock_subscription (created_at, id);

-- What it reads: an event type cannot go while it is read.
CREATE TABLE penstock_subscription_source (
    subscription  TEXT NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type_id INTEGER NOT NULL REFERENCES penstock_event_type (id),
    PRIMARY KEY (subscription, event_type_id)
) STRICT;
CREATE INDEX penstock_subscription_source_of ON penstock_subscription_source (event_type_id);

-- Hub processes that stream, and when each was last seen, by the clock of the database.
CREATE TABLE penstock_hub (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT;

-- A stream. One that has ended is kept until holds_until where it may still commit what it was sent.
CREATE TABLE penstock_session (
    id           TEXT PRIMARY KEY,
    subscription TEXT NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    hub_id       TEXT NOT NULL,
    wants        TEXT NOT NULL,
    batch_limit  INTEGER NOT NULL,
    commit_ms    INTEGER NOT NULL,
    secret       BLOB NOT NULL,
    opened_at    INTEGER NOT NULL,
    extensions   INTEGER NOT NULL,
    holds_until  INTEGER
) STRICT;
CREATE INDEX penstock_session_of ON penstock_session (subscription);

-- A partition of a subscription that has been begun: whose it is, whose it is to be, how far an ended owner was sent it, and
-- how often it was left uncommitted.
CREATE TABLE penstock_slot (
    subscription TEXT NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type   TEXT NOT NULL,
    "partition"  INTEGER NOT NULL,
    owner        TEXT,
    heir         TEXT,
    sent         INTEGER,
    failed       INTEGER NOT NULL,
    single_until INTEGER NOT NULL,
    PRIMARY KEY (subscription, event_type, "partition")
) STRICT;

-- A key whose events wait behind one that could not be processed; NULL: that event has none, and waits alone.
CREATE TABLE penstock_parked (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type   TEXT NOT NULL,
    "partition"  INTEGER NOT NULL,
    key          TEXT,
    attempts     INTEGER NOT NULL,
    parked_at    INTEGER NOT NULL,
    is_retried   INTEGER NOT NULL
) STRICT;
CREATE INDEX penstock_parked_of ON penstock_parked (subscription);
CREATE UNIQUE INDEX penstock_parked_once ON penstock_parked (subscription, event_type, "partition", key);

-- Which events those are.
CREATE TABLE penstock_parked_event (
    parked_id INTEGER NOT NULL REFERENCES penstock_parked (id) ON DELETE CASCADE,
    "offset"  INTEGER NOT NULL,
    PRIMARY KEY (parked_id, "offset")
) STRICT;

-- What was done to a consumer over its head, and why.
CREATE TABLE penstock_intervention (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    "group"   TEXT NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source    TEXT NOT NULL,
    slice     TEXT NOT NULL,
    tranche   INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    epoch     INTEGER NOT NULL,
    came_from INTEGER,
    went_to   INTEGER NOT NULL,
    reason    TEXT,
    at        INTEGER NOT NULL
) STRICT;
CREATE INDEX penstock_intervention_of ON penstock_intervention ("group", id);
