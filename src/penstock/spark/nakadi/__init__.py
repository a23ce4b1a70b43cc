"""format("nakadi"): a subscription of any Nakadi server, in Spark.

Nakadi keeps how far a subscription has come, Spark how far a query has. A batch that Nakadi sends has a cursor, its
events have none: who asks again from anywhere but a cursor that is committed gets them again, cut into other batches.
So the driver takes batches from an open stream, *lands* them durably as pages, and only then tells Spark of them.

Invariants:
    What Spark is told of is landed. A micro-batch that is run again reads the same pages.
    A cursor is committed only after Spark has committed the micro-batch whose events are before it.
    No stream is opened while a micro-batch is under way, nor before Nakadi stands where Spark does: what is sent then
    follows what is landed, and none of it was landed before.
    The pages of a run lie in a lane of their own: a driver that was thought dead writes over nobody's pages.
"""
