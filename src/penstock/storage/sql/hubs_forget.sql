-- Delete hubs without a heartbeat since :before that have no sessions.
DELETE FROM penstock_hub
WHERE seen_at < :before AND NOT EXISTS (SELECT 1 FROM penstock_session WHERE hub_id = penstock_hub.id)
