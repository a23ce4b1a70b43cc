-- The outbox: a service inserts here inside its own transaction, the hub moves each row into the log and deletes it.
CREATE TABLE IF NOT EXISTS penstock_outbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type  TEXT NOT NULL CHECK (typeof(event_type) = 'text'),
    data        TEXT NOT NULL,
    key         TEXT,
    headers     TEXT,
    "partition" INTEGER,
    created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
)
