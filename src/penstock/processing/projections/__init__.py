"""Read models that are folds of events, kept in tables beside their positions.

projection  what is folded how, under which name and version
standing    how far versions are built
columns     a class's fields as columns
table       the rows, in SQLite or PostgreSQL
keyed       a source whose streams are the rows
folding     folds what has come into rows
"""
