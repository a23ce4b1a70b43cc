"""Processors on Spark: handlers run on the executors, the engine and the checkpoints stay with the driver.

processor   the driver's loop: plans a round, has Spark carry it out, and feeds the engine with what comes back
sources     what is read: feeds, tables, Kafka, MessageDB
plan        what a round is to do
reading     events by column, as executors read them
calling     executors: calls the handler, stream by stream
child       executors: in a process that can be killed
events      the events of a stream, made when they are asked for
results     what comes back of each stream, as rows without payload
"""
