"""Runners drive the engine: they read, call handlers and commit. They differ only in that.

local        runs a processor in this process: a loop owns the engine, other threads read, call and commit
inline       runs it step by step in the caller's thread, for tests
processor    the base of processors in a thread of their own, and the choice of checkpoints
background   the threads that read and commit, and their hand-overs to the loop
workers      the threads and tasks that call handlers
leaseholder  renews and releases leases of shared tranches
observer     takes snapshots, and writes the log
"""
