-- Who has which tranches of a processor that runs several times: JSON, see sharing.py.
CREATE TABLE IF NOT EXISTS {table}_leases (
    processor text NOT NULL PRIMARY KEY,
    shared    text NOT NULL
) WITHOUT ROWID
