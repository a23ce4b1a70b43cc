-- Forget hubs that were not seen for long and of which no stream is known.
DELETE FROM penstock_hub
WHERE seen_at < :before AND NOT EXISTS (SELECT 1 FROM penstock_session WHERE hub_id = penstock_hub.id)
