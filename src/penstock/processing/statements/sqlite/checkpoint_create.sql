-- Where processors have come to, by tranche. A position that is a whole number is a number to them.
CREATE TABLE IF NOT EXISTS {table} (
    processor  TEXT NOT NULL,
    tranche    TEXT NOT NULL,
    position   TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (processor, tranche)
) WITHOUT ROWID
