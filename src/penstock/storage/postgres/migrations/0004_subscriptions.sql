-- Subscriptions: what each is, who is streaming it, and what was set aside; and who has moved a consumer. Safe beside a
-- running service.

-- Its name is that of its consumer group. The revision moves with whatever those who stream it have to hear of. Whoever
-- changes anything of a subscription has locked its row.
CREATE TABLE penstock_subscription (
    id                 text PRIMARY KEY REFERENCES penstock_group (name) ON DELETE CASCADE,
    identity           text NOT NULL UNIQUE,
    owning_application text NOT NULL,
    definition         text NOT NULL,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL,
    revision           bigint NOT NULL,
    resetting_until    bigint
);
CREATE INDEX penstock_subscription_newest ON penstock_subscription (created_at, id);

-- What it reads: an event type cannot go while it is read.
CREATE TABLE penstock_subscription_source (
    subscription  text NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type_id integer NOT NULL REFERENCES penstock_event_type (id),
    PRIMARY KEY (subscription, event_type_id)
);
CREATE INDEX penstock_subscription_source_of ON penstock_subscription_source (event_type_id);

-- Hub processes that stream, and when each was last seen, by the clock of the database.
CREATE TABLE penstock_hub (
    id      text PRIMARY KEY,
    seen_at bigint NOT NULL
);

-- A stream. One that has ended is kept until holds_until where it may still commit what it was sent.
CREATE TABLE penstock_session (
    id           text PRIMARY KEY,
    subscription text NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    hub_id       text NOT NULL,
    wants        text NOT NULL,
    batch_limit  integer NOT NULL,
    commit_ms    integer NOT NULL,
    secret       bytea NOT NULL,
    opened_at    bigint NOT NULL,
    extensions   integer NOT NULL,
    holds_until  bigint
);
CREATE INDEX penstock_session_of ON penstock_session (subscription);

-- A partition of a subscription that has been begun: whose it is, whose it is to be, how far an ended owner was sent it, and
-- how often it was left uncommitted.
CREATE TABLE penstock_slot (
    subscription text NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type   text COLLATE "C" NOT NULL,
    "partition"  integer NOT NULL,
    owner        text,
    heir         text,
    sent         bigint,
    failed       integer NOT NULL,
    single_until bigint NOT NULL,
    PRIMARY KEY (subscription, event_type, "partition")
);

-- A key whose events wait behind one that could not be processed; NULL: that event has none, and waits alone.
CREATE TABLE penstock_parked (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text NOT NULL REFERENCES penstock_subscription (id) ON DELETE CASCADE,
    event_type   text COLLATE "C" NOT NULL,
    "partition"  integer NOT NULL,
    key          text,
    attempts     integer NOT NULL,
    parked_at    bigint NOT NULL,
    is_retried   boolean NOT NULL
);
CREATE INDEX penstock_parked_of ON penstock_parked (subscription);
CREATE UNIQUE INDEX penstock_parked_once ON penstock_parked (subscription, event_type, "partition", md5(key));

-- Which events those are.
CREATE TABLE penstock_parked_event (
    parked_id bigint NOT NULL REFERENCES penstock_parked (id) ON DELETE CASCADE,
    "offset"  bigint NOT NULL,
    PRIMARY KEY (parked_id, "offset")
);

-- What was done to a consumer over its head, and why.
CREATE TABLE penstock_intervention (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "group"   text NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source    text NOT NULL,
    slice     text NOT NULL,
    tranche   integer NOT NULL,
    kind      text NOT NULL,
    epoch     integer NOT NULL,
    came_from bigint,
    went_to   bigint NOT NULL,
    reason    text,
    at        bigint NOT NULL
);
CREATE INDEX penstock_intervention_of ON penstock_intervention ("group", id);
