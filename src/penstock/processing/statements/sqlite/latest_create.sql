-- What was last applied to each entity: its ordering key, a list in JSON, and whether it is deleted.
CREATE TABLE IF NOT EXISTS {table} (
    feed         TEXT NOT NULL,
    consumer     TEXT NOT NULL,
    entity       TEXT NOT NULL,
    ordering_key TEXT,
    deleted      INTEGER NOT NULL,
    applied_at   INTEGER NOT NULL,
    PRIMARY KEY (feed, consumer, entity)
) WITHOUT ROWID
