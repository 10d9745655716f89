"""External trackers that follow a run while it trains, and an alert when it ends.

Neither can stop or slow a run: a tracker's library runs in a child process, fed by a bounded queue that drops lines
when full, and a hanging child is killed. Addresses and keys come from the libraries' settings or the command line; they
are not recorded.
"""
