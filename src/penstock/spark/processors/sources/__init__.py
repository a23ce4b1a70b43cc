"""Sources of processors and projections on Spark: executors read their events directly.

source      the protocol of such a source
feeds       the feeds of a hub
frames      the base of sources that read a data frame: rows become events
table       any data frame that can be read again
kafka       records of Kafka
messagedb   the categories of a MessageDB
"""
