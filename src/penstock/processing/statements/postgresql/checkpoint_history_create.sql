-- What was done to processors over their heads.
CREATE TABLE IF NOT EXISTS {table}_history (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    processor text NOT NULL,
    tranche   text NOT NULL,
    at        bigint NOT NULL,
    came_from text,
    went_to   text,
    reason    text
)
