"""llama.cpp writes the greedy tokens of trained models from our GGUF files: in BF16 all of 96, in Q8_0 90 at least.

    python -m proof.gguf [FAMILY | FOLDER ...]

A small model of every family, or of each FAMILY, is trained for 60 steps at a high rate, with LoRA and in full, and
learns 4 rows by heart. Each FOLDER has published weights in Hugging Face's format: `workings train` trains it with LoRA
for 50 steps, `workings export` writes it in both formats, and it is asked 4 questions that training has not shown, and
goes on writing after its answers. Ours is what the PyTorch engine writes with the exported weights in bfloat16. Of
small models log probabilities after other rows are compared as well, from a file in float32. Writes `proof/gguf.json`.
Exits with 1 where fewer tokens are equal, with 3 without the packages `gguf` and `xllamacpp`.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.publish.llama_cpp import NEW_TOKENS, PROMPTS, compared, equal_tokens, our_tokens, their_tokens
from tools.result_file import earlier, measured, write_result
from tools.run_scripts import NOT_MEASURED
from workings.data.generators import addition
from workings.data.traces import write_traces
from workings.models.gguf.forms import FORMS
from workings.publish.export import GGUF_FILE, export_run
from workings.publish.gguf_file import TYPES
from workings.runs.open_model import SealedRun
from workings.runs.train import train

PACKAGES = ("torch", "transformers", "gguf", "xllamacpp")
ENOUGH = {"bf16": PROMPTS * NEW_TOKENS, "q8_0": 90}
RECIPE = """name: gguf
seed: 3
engine: torch
device: cpu
model: {{source: pretrained, id: {weights}}}
tokenizer: model
data: {{traces: traces.jsonl, template: {template}, reasoning: hashes, max_length: 128}}
method: {{name: lora, rank: 8, alpha: 16}}
batch: {{micro_batch: 2, accumulation: 1}}
training: {{steps: 50, learning_rate: 1e-3, schedule: constant}}
optimizer: {{name: adamw}}
"""


def published(weights: Path, folder: Path) -> dict[str, Any]:
    """Equal greedy tokens of a published model after 50 steps of LoRA."""
    traces, _ = addition.make(24, 1, seed=5)
    write_traces(folder / "traces.jsonl", traces)
    # A base model has no template.
    template = "tokenizer" if (weights / "chat_template.jinja").exists() else "plain"
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(weights=weights.resolve(), template=template))
    result = train(str(recipe), folder / "run")
    export_run(folder / "run", folder / "safetensors")
    asked = [trace.prompt for trace in addition.make(PROMPTS, 1, seed=6)[0]]
    prompts = [SealedRun.open(folder / "run").template.prompt_ids(prompt) for prompt in asked]
    ours = our_tokens(folder / "safetensors", prompts)
    found: dict[str, Any] = {"tokens": PROMPTS * NEW_TOKENS, "loss": result.final_loss, "template": template}
    for kind in TYPES:
        export_run(folder / "run", folder / kind, gguf_type=kind)
        found[kind] = equal_tokens(ours, their_tokens(folder / kind / GGUF_FILE, prompts))
    return found


def main(arguments: list[str]) -> int:
    """Compare, write, and say whether enough tokens are equal."""
    if not all(map(find_spec, ("gguf", "xllamacpp"))):
        print("not measured: install gguf and xllamacpp")
        return NOT_MEASURED
    cases: dict[str, Callable[[Path], dict[str, Any]]] = {}
    for asked in arguments or FORMS:
        if asked in FORMS:
            cases |= {f"{asked} {method}": partial(compared, asked, method) for method in ("lora", "full")}
        else:
            cases[Path(asked).name] = partial(published, Path(asked))
    for name, case in cases.items():
        with tempfile.TemporaryDirectory(prefix="workings-gguf-") as folder:
            found = case(Path(folder)) | {"compared": measured()}
        print(name, found, flush=True)
        write_result(packages=PACKAGES, words="[FAMILY | FOLDER ...]", values=earlier() | {name: found})
    return 0 if all(row[kind] >= enough for row in earlier().values() for kind, enough in ENOUGH.items()) and all(
        row["log_prob_difference"] < row["log_prob_limit"] for row in earlier().values() if "log_prob_limit" in row
    ) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
