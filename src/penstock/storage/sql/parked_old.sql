-- Select up to :limit keys that were parked before :before, oldest first.
SELECT subscription, id FROM penstock_parked WHERE parked_at < :before ORDER BY parked_at, id LIMIT :limit
