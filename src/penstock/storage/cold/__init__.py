"""The cold tier: sealed ranges of partitions in Parquet files, in a directory or in a bucket of S3.

`docs/cold-tier.md` describes the layout, for those who read the files without Penstock.
"""
