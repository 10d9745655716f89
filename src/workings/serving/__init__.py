"""A server with OpenAI's HTTP interface: chat and text completions, streaming, log probabilities.

For trying a run with other programs on this machine. It answers one request at a time: for load, export the
run and serve it with vLLM.
"""
