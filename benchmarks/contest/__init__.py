"""Timing programs against each other on one machine, so that none disturbs another.

Each contestant lives in a process of its own, which prepares and compiles once and then waits. They
are asked in turns, one at a time, for a few generations each.
"""
