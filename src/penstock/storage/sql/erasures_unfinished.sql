-- Select the erasures that are still to erase events of an event type which there is.
SELECT e.id FROM penstock_erasure AS e JOIN penstock_event_type AS t ON t.name = e.event_type AND t.epoch = e.epoch
WHERE e.finished_at IS NULL
