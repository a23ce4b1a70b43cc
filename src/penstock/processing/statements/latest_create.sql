-- What was last applied to each entity: its ordering key, a list in JSON, and whether it is deleted. Without a key:
-- nothing yet, an entity's first change is about to be applied.
CREATE TABLE IF NOT EXISTS {table} (
    feed         text NOT NULL,
    consumer     text NOT NULL,
    entity       text NOT NULL,
    ordering_key text,
    deleted      integer NOT NULL,
    applied_at   bigint NOT NULL,
    PRIMARY KEY (feed, consumer, entity)
) WITHOUT ROWID
