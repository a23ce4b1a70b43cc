-- PostgreSQL leaves the bytes of deleted rows until a vacuum lets others have their place.
SELECT 1
