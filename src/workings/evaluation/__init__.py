"""Ask, extract, score, count, compare: did it get better, or is that noise?

`settings` configure an evaluation; `external` reads existing completions; `predictions` are the scored lines and their
summary, `scorecard` the totals, `unit` the folder. `run` goes from items to a sealed unit; `cache` and `harness` make
units in other ways. `comparison` compares units with the intervals and tests of `statistics`.
"""
