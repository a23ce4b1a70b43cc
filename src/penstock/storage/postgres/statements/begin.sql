-- Begin to write, whatever the database's defaults are: a statement after a lock sees what was committed before it, a
-- success is on disk, and who is cut off in the middle holds its locks no longer than this.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('idle_in_transaction_session_timeout', '20s', true);
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')
