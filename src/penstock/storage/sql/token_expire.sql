-- Let a token expire at :at, unless it expires earlier.
UPDATE penstock_token SET expires_at = :at WHERE id = :id AND (expires_at IS NULL OR expires_at > :at)
