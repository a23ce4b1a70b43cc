-- Insert a token.
INSERT INTO penstock_token (id, digest, data_type, application, created_at, expires_at)
VALUES (:id, :digest, :data_type, :application, :created_at, :expires_at)
