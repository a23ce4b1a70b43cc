-- Delete tokens that expired before :before.
DELETE FROM penstock_token WHERE expires_at < :before
