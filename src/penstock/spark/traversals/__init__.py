"""Data frames that are traversed again and again: rows without an order of their own, numbered so that they have one.

A *traversal* reads all rows there are, from the first to the last. It starts at a second of the clock, and its rows
have the positions second * 1 000 000 000 + 0, 1, 2 …

Invariants:
    The positions of a traversal are larger than all those of the traversals before it, also where the clock goes back.
    A traversal that was interrupted comes again from its first row, and has the same start.
"""
