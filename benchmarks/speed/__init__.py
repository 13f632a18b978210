"""The time of a generation, compared between capo and other libraries on one machine.

Each program runs in its own process, which compiles once and then waits. The programs take turns:
one at a time, each runs a few generations, so that a drift of the machine's speed affects all.
"""
