-- Let a stream be one that has ended and may still commit.
UPDATE penstock_session SET holds_until = %(until)s WHERE id = %(id)s
