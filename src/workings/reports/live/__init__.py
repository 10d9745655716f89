"""Trackers of other people, told of a run while it trains, and an alert when it ends.

Neither can stop a run or slow it: a tracker's library runs in a child process, lines go to it through a bounded queue
that drops what does not fit, and a child that hangs is ended. Addresses and keys are the libraries' own settings, or
given on the command line; none goes into the record.
"""
