"""Processors on Spark: handlers run on the executors, the engine and the checkpoints stay with the driver.

processor   the driver's loop: plans a round, runs it on Spark, and passes the results to the engine
sources     feeds, tables, Kafka, MessageDB
plan        the work of a round
reading     events by column, as executors read them
calling     executors: calls the handler, stream by stream
child       executors: in a process that can be killed
events      the events of a stream, decoded on access
results     the results for each stream, as rows without payload
"""
