-- Begin a write transaction, whatever the database's defaults: a statement after a lock sees what was committed before
-- it, a commit is on disk, and a broken connection releases its locks in time.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('idle_in_transaction_session_timeout', '20s', true);
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')
