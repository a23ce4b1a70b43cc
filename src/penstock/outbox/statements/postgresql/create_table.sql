-- The outbox: a service inserts here inside its own transaction, the hub moves each row into the log and deletes it.
-- One statement, so that every driver can run it. It checks for the table first, because CREATE INDEX locks the table even
-- if the index exists. By xid the hub finds the rows that can be new without reading dead ones.
DO $$
BEGIN
    IF to_regclass('penstock_outbox') IS NULL THEN
        CREATE TABLE penstock_outbox (
            id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            event_type  text NOT NULL,
            data        text NOT NULL,
            key         text,
            headers     text,
            "partition" integer,
            created_at  timestamptz NOT NULL DEFAULT now(),
            xid         xid8 NOT NULL DEFAULT pg_current_xact_id()
        );
        CREATE INDEX penstock_outbox_waiting ON penstock_outbox (xid, event_type);
    END IF;
EXCEPTION WHEN unique_violation OR duplicate_table THEN
    NULL;  -- Another transaction has created it concurrently.
END
$$
