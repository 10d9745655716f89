"""Writes docs/reference/silent.md from proof/silent.json: ``python -m tools.silent_page [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tools.benchmarks_page import origin, table
from tools.generated import ROOT, deliver

PAGE = Path("docs/reference/silent.md")
RESULT = Path("proof/silent.json")
NAMES = {"trl": "TRL", "peft": "PEFT (Trainer)", "llamafactory": "LLaMA-Factory", "axolotl": "axolotl",
         "unsloth": "Unsloth", "tunix": "Tunix", "soup": "Soup"}
LIMITS = {
    "trl": "Not tried is what needs vLLM (`drifting_base`, `ratio_under_top_p`).",
    "peft": "Its reference (`package_reference/lora.md`) promises of `unmerge_adapter` that it returns the base model.",
    "llamafactory": "Without torchvision and torchaudio, which do not load with PyTorch's CPU wheel.",
    "axolotl": "0.21.0 asks for Python 3.12; 0.19.0 is the newest for 3.11. Without what needs a GPU. Its "
               "documentation (`docs/batch_vs_grad.qmd`) promises of accumulation the update of one larger batch, and "
               "says nothing about keys that it does not know; `seed` is documented as a seed for reproducibility.",
    "unsloth": "Training is its CPU backend: transformers, PEFT and TRL with Unsloth's loader, defaults and loss. What "
               "needs its GPU kernels, or its own versions of TRL's other trainers, was not tried.",
    "soup": "Tried is `soup train`; another command, `soup data doctor`, is documented to find a missing stop token "
            "(`docs/data.md`). Without generation marks a turn's header is documented to be learned as well; the next "
            "question is not."}
"""What could not be tried of a peer, or how it was installed."""
_REWARDS = ("all_cut_off", "batch_statistics", "equal_rewards", "exploding_ratio", "group_statistics",
            "masked_denominator", "nan_reward", "ratio_under_top_p", "retokenized_completion",
            "rollouts_without_adapter", "sequence_ratio", "shifted_rewards")
_SCORES = ("cut_score", "fragment_of_number", "talked_into", "tiny_values", "trained_questions")
_PAIRS = ("equal_pair", "late_reference")
_TEACHER = ("foreign_teacher", "no_teacher_signal")
_TURNS = ("double_bos", "dropped_context", "dropped_reasoning", "dropped_system_turn", "dropped_tools",
          "everything_masked", "ignored_turn_weight", "lost_end_of_turn", "mask_starts_early", "packed_border",
          "packed_documents", "reasoning_twice", "rewritten_turns", "split_conversation", "template_without_stop")
ABSENT: dict[str, dict[str, tuple[str, ...]]] = {
    "trl": {"no evaluation of answers": ("cut_score", "trained_questions"),
            "documents each column that it reads, and no marks of turns": ("dropped_context", "ignored_turn_weight"),
            "adapters and merging are PEFT's": ("qlora_merge", "tied_embeddings")},
    "peft": {"no training from rewards": _REWARDS, "no scorer": _SCORES, "no preferences": _PAIRS,
             "no teacher": _TEACHER, "rows come tokenized": (*_TURNS, "cut_answers", "exported_stop_token"),
             "no files of settings": ("rate_as_text",),
             "it has no command to launch": ("ignored_launcher",)},
    "llamafactory": {"no training from groups of rewards": _REWARDS, "no scorer of answers": _SCORES,
                     "no teacher": _TEACHER, "no rollouts into a server": ("drifting_base",),
                     "documents no marks of turns, and its own templates need none": (
                         "ignored_turn_weight", "everything_masked"),
                     "documents that adapters are merged into weights that are not quantized": ("qlora_merge",)},
    "axolotl": {"rewards are TRL's": _REWARDS, "no scorer of answers": _SCORES, "preferences are TRL's": _PAIRS,
                "rollouts are TRL's": ("drifting_base",), "answers one prompt at a time": ("batch_dependent_greedy",)},
    "unsloth": {"no scorer of answers": _SCORES, "distillation is TRL's": _TEACHER,
                "documents no marks of turns": ("ignored_turn_weight",),
                "its CPU backend turns packing off, and prints so": (
                    "packed_border", "packed_documents", "split_conversation")},
    "tunix": {"no scorer of answers": _SCORES, "rows come tokenized": (*_TURNS, "cut_answers", "exported_stop_token"),
              "a teacher is a model without a tokenizer": ("foreign_teacher",),
              "not a program of PyTorch's launcher": ("ignored_launcher",)},
    "soup": {"rollouts are the trained model's own": ("drifting_base",),
             "no settings of sampling": ("ratio_under_top_p",),
             "documents another command for it, `soup data decontaminate`": ("trained_questions",)}}
"""Kinds that cannot occur with a peer, by the reason."""
HEAD = """# Silent wrongness

Mistakes of trainers that people reported and that nothing showed: no error, a loss that looks normal. Each is one file
of `proof/silent/` with the smallest example, run through both engines. *right*: the mistake is not made. *refused*: an
error names the cause. *warned*: it is made, and a warning names it. *wrong*: it is made without a word. A value
of the run's log that is documented to show it counts as a warning. *n/a*: the trainer has no such feature. *–*: not
tried. What a trainer documents is no mistake. Cells of another trainer are examples of at most 30 lines in
`proof/silent/peers/` (`python -m proof.silent --peers NAME=PYTHON`).

"""


def render() -> str:
    """The whole page."""
    found: dict[str, Any] = json.loads((ROOT / RESULT).read_text(encoding="utf-8"))
    values = found["values"]
    peers = values.get("peers", {})
    absent = {peer: {name: {"verdict": "n/a"} for kinds in ABSENT[peer].values() for name in kinds} for peer in peers}
    columns = [*values["ours"].values(), *(absent[peer] | values["cells_of_peers"][peer] for peer in peers)]
    rows = [[f"`{name}`: {row['wrong']}", row["reported"],
             *(cells.get(name, {}).get("verdict", "–").replace("not tried", "–") for cells in columns)]
            for name, row in values["cases"].items()]
    heads = ["what goes wrong", "reported", "ours, PyTorch", "ours, JAX",
             *(NAMES[peer] for peer in peers)]
    parts = [HEAD, f"{values['kinds']} kinds. {origin(found)}\n\n", "\n".join(table(heads, rows)), "\n"]
    for peer, tried in peers.items():
        count = Counter(cell["verdict"] for cell in values["cells_of_peers"][peer].values())
        cells = [f"- `{name}`, {cell['verdict']}: {cell['evidence']}"
                 for name, cell in values["cells_of_peers"][peer].items() if cell["verdict"] in ("wrong", "warned")]
        said = ", ".join(f"{name} {version}" for name, version in tried["versions"].items())
        reasons = "; ".join(f"{why} ({len({*kinds} - {*values['cells_of_peers'][peer]})})"
                           for why, kinds in ABSENT[peer].items())
        parts.append("\n".join([f"\n## {NAMES[peer]}\n", f"{tried['date']}; {said}. {LIMITS.get(peer, '')}".strip(),
                                f"{count['right']} right, {count['refused']} refused. Cannot occur, and why: "
                                f"{reasons}." + (" The others:\n" if cells else ""), *cells, ""]))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
