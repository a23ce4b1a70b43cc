-- Where processors have come to, by tranche. A position that is a whole number is a number to them.
-- `owner`: who alone may move it; NULL: whoever knows where it is.
CREATE TABLE IF NOT EXISTS {table} (
    processor  text NOT NULL,
    tranche    text NOT NULL,
    position   text NOT NULL,
    updated_at bigint NOT NULL,
    owner      text,
    PRIMARY KEY (processor, tranche)
) WITHOUT ROWID
