-- Where processors have come to, by tranche. A position that is a whole number is a number to them.
-- `owner`: who alone may move it; NULL: whoever knows where it is.
CREATE TABLE IF NOT EXISTS {table} (
    processor  TEXT NOT NULL,
    tranche    TEXT NOT NULL,
    position   TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    owner      TEXT,
    PRIMARY KEY (processor, tranche)
) WITHOUT ROWID
