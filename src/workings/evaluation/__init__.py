"""Evaluations: did the model get better, or is that noise?

`run` asks a model, or reads completions by `external`; it scores them and seals a folder, the `unit`. That holds
`predictions` (a line per completion) and the `scorecard`. `comparison` compares units by the tests in `statistics`.
"""
