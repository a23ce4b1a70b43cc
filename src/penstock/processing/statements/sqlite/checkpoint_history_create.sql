-- What was done to processors over their heads.
CREATE TABLE IF NOT EXISTS {table}_history (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    processor TEXT NOT NULL,
    tranche   TEXT NOT NULL,
    at        INTEGER NOT NULL,
    came_from TEXT,
    went_to   TEXT,
    reason    TEXT
)
