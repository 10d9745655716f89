"""A server with OpenAI's HTTP interface: chat and text completions, streaming, log probabilities.

It is for trying a run with other programs on this machine, and answers one request at a time.
"""
