-- Record when tokens were last used.
UPDATE penstock_token SET used_at = ? WHERE id = ? AND (used_at IS NULL OR used_at < ?)
