"""External trackers that follow a run while it trains.

None can stop or slow a run: a tracker's library runs in a child process, fed by a bounded queue that drops lines
when full, and a hanging child is killed. Addresses and keys come from the libraries' settings; they are not recorded.
"""
