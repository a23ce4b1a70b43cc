-- Add rows in COPY's text format.
COPY penstock_event (partition_id, "offset", received_at, key, kind, headers, data) FROM STDIN
