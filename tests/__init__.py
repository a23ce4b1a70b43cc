"""The tests of Penstock.

pytest takes a folder for a package where it has an `__init__.py`: what its tests share, by fixtures of the scope
`package`, ends after the last of them. A hub, a broker or a browser of the scope `session` would take processor time
from the tests of all folders that come later.
"""
