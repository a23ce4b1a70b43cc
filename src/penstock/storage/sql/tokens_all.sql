-- Select all tokens.
SELECT id, digest, data_type, application, created_at, expires_at, used_at FROM penstock_token ORDER BY created_at, id
