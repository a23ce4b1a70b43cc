"""Projections on Spark, for large rebuilds: the same rows as in one process, in a database or in files.

project   the driver: reads feeds in rounds, and has a target keep what comes of each
folding   executors: events by row, folded into what there was
database  a target: the projection's own table
files     a target: Parquet or Delta, with a folder for each version, and one that is in use
"""
