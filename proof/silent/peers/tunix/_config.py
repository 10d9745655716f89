"""Tunix's configuration of the command line, from a small file."""
import tempfile

from tunix.cli.config import HyperParameters

USUAL = """model_config: {model_name: llama3.2-1b, model_source: internal}
tokenizer_config: {tokenizer_type: sentencepiece, tokenizer_path: x}
training_config: {eval_every_n_steps: 9}
"""


def config(settings, words=()):
    """With these settings of the optimizer in the file, and these words on the command line."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(f"{USUAL}optimizer_config:\n  opt_type: adamw\n  {settings}\n")
    return HyperParameters(["peft_main", file.name, *words])
