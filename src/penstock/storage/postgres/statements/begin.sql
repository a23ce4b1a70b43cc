-- Begin to write, whatever the database's defaults are: a statement after a lock sees what was committed before it, and a
-- success is on disk.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')
