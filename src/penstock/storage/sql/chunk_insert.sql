-- Store a chunk, unless there is one of that number.
INSERT INTO penstock_chunk (upload_id, number, events, digest, rejected, body)
VALUES (:upload_id, :number, :events, :digest, :rejected, :body)
ON CONFLICT (upload_id, number) DO NOTHING
