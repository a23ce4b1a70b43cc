-- Who publishes to which event type. Safe beside a running service.

-- When a caller, DATA_TYPE:VALUE, has last published to an event type, to within minutes. Without a reference to the event
-- type: recording must not wait for those who change it. What is older than the event type, or than 30 days, does not count.
CREATE TABLE penstock_publisher (
    event_type text NOT NULL,
    caller     text NOT NULL,
    seen_at    bigint NOT NULL,
    PRIMARY KEY (event_type, caller)
);
