-- Lock event types (shared) and heads, each in the order of their ids; a success must be on disk whatever the default.
SELECT p.id,
       CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
            THEN set_config('synchronous_commit', 'on', true) END
FROM (SELECT id FROM penstock_event_type
      WHERE id IN (SELECT event_type_id FROM penstock_partition WHERE id = ANY(%(ids)s))
      ORDER BY id FOR SHARE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id AND p.id = ANY(%(ids)s)
ORDER BY p.id FOR UPDATE OF p
