"""The files of a cold tier, and where they lie: read and written without a database.

`docs/reference/cold-tier.md` describes the layout, for those who read the files without Penstock.
"""
