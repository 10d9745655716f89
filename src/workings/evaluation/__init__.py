"""Ask, extract, score, count, compare: did it get better, or is that noise?

`settings` say what is asked; `generate` asks a model, `external` reads what someone else's model answered;
`predictions` are the scored lines, `scorecard` and `summary` what they come to, `unit` the folder that holds all of
it. `run` is the whole way from items to a sealed unit; `cache` and `harness` are two more ways to one. `comparison`
holds units against each other, with the intervals and tests of `statistics`.
"""
