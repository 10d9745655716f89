"""Writes docs/benchmarks.md and its chart from result files: ``python -m tools.benchmarks_page [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.generated import ROOT, deliver
from workings.record.number_text import percent

PAGE, CHART = Path("docs/benchmarks.md"), Path("docs/images/benchmarks.svg")
RESULTS = Path("benchmarks/results")
HEAD = """# Benchmarks

Speed and memory of training, compared with two other trainers: TRL (Hugging Face, PyTorch) and Tunix (Google, JAX).
Times were measured on CPUs with two cores. More tokens per second is better; *padding* is the share of positions
without a token.

Each part ends with the date, the processor, the versions and the command that repeats it. The numbers come from the
files in `benchmarks/results/`. The log (`benchmarks/LOG.md`) has the attempts and the missed goals.
"""
ENGINES = {"jax": "ours, JAX", "torch": "ours, PyTorch", "torch bf16": "ours, PyTorch, bf16",
           "torch bf16 weights": "ours, PyTorch, bf16 weights"}


def result(name: str) -> dict[str, Any] | None:
    """A result file, or None where it was not written yet."""
    path = ROOT / RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table of Markdown."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]


def origin(found: dict[str, Any]) -> str:
    """Where the numbers of a part come from."""
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    busy = "" if found["values"].get("quotable", True) else " **The machine was busy: do not quote.**"
    return (f"{found['date']}, {machine['processor']}, {machine['cores']} cores; {versions}. "
            f"Repeat: `{found['command']}`.{busy}")


BARS = {"torch": ("ours, PyTorch", "#2e7d32"), "jax": ("ours, JAX", "#81c784"),
        "trl": ("TRL, best settings", "#455a64"), "trl defaults": ("TRL, defaults", "#b0bec5"),
        "tunix": ("Tunix, best settings", "#8d6e63")}
"""Trainer -> its name in the chart and its colour."""
MODELS = {"smollm2": "SmolLM2-135M-Instruct", "gemma3": "Gemma 3 270M"}
METHODS = {"lora": "LoRA", "full": "all weights"}


def speeds() -> list[tuple[str, dict[str, float]]]:
    """Each comparison with peers: its title, and each trainer's speed in multiples of TRL's at its best."""
    cases = [(f"{MODELS[model]}, {METHODS[method]}, traces", case["contenders"], "tokens_per_second")
             for name, case in (result("peers") or {"values": {"cases": {}}})["values"]["cases"].items()
             for model, _, method in (name.partition("-"),)]
    for name, what in (("peers_rl", "rewards (GRPO)"), ("peers_dpo", "preferences (DPO)")):
        if found := result(name):
            cases.append((f"{MODELS['smollm2']}, LoRA, {what}", found["values"]["contenders"], "updates_per_second"))
    ratios = []
    for title, contenders, unit in cases:
        best = {bar: max(fast) for bar in BARS if (fast := [
            each[unit] for name, each in contenders.items() if bar in (name, name.split()[0])])}
        ratios.append((title, {bar: speed / best["trl"] for bar, speed in best.items()}))
    return ratios


def chart() -> str:
    """Speeds of all comparisons as horizontal bars: SVG, 720 wide, readable on a light and a dark page."""
    cases, lines, y = speeds(), [], 50
    scale = 400 / max(speed for _, bars in cases for speed in bars.values())
    for title, bars in cases:
        lines.append(f'<text x="20" y="{y}" font-weight="600">{title}</text>')
        for bar, speed in bars.items():
            y += 24
            name, colour = BARS[bar]
            lines.append(f'<text x="190" y="{y}" text-anchor="end">{name}</text>'
                         f'<rect x="200" y="{y - 14}" width="{speed * scale:.0f}" height="18" fill="{colour}"/>'
                         f'<text x="{208 + speed * scale:.0f}" y="{y}">{speed:.2f} x</text>')
        y += 40
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y}" role="img" aria-label="Speed in multiples of '
        'TRL at its best settings" font-family="system-ui, sans-serif" font-size="14" fill="#1c262b">',
        f'<rect width="720" height="{y}" rx="8" fill="#fafafa"/>',
        '<text x="20" y="24" font-size="12" fill="#455a64">Speed in multiples of TRL at its best settings; longer is '
        'faster. Two CPU cores.</text>', *lines, "</svg>", ""])


def ratios_line(ratios: dict[str, float]) -> list[str]:
    """The ratios below a table."""
    return ["", "Ratios of the best settings: " + ", ".join(
        f"{pair.replace('_', ' ')} {ratio:.2f}" for pair, ratio in ratios.items()) + ".", ""]


def peers(found: dict[str, Any]) -> list[str]:
    """Compared with TRL and Tunix."""
    slower = [f"{ENGINES[bar][6:]} at {title} ({bars[bar]:.2f})" for title, bars in speeds() for bar in ("torch", "jax")
              if bars[bar] < 1]
    intel = result("peers_intel")
    assert intel is not None
    ratios = intel["values"]["cases"]["smollm2-lora"]["ratios"]
    lines = [f"Slower than TRL at its best: {', '.join(slower) or 'nothing that was measured'}.", "",
             "With LoRA on traces, on an Intel Xeon, whose bf16 is slower: "
             f"JAX {ratios['jax_to_trl_best']:.2f}, PyTorch {ratios['torch_to_trl_best']:.2f}.", "",
             "Fine-tuning of real models on GSM8K's rows: our two engines, TRL's `SFTTrainer` (with PEFT's LoRA) and "
             "Tunix's `PeftTrainer`. All start with the same weights and learn from the same tokens, 8 rows per "
             "update, with AdamW and clipping on two threads; each runs in a fresh process, and they take turns. Only "
             "supervised tokens are counted. LoRA has rank 16 on all projections.", "",
             f"![Speeds in multiples of TRL at its best settings]({CHART.relative_to('docs')})", "",
             "| setting | meaning |", "|---|---|",
             "| `grouped` | rows of similar length in one batch, float32, no gradient checkpointing |",
             "| `bf16` | matrix products in bfloat16, weights in float32 |",
             "| `bf16 weights` | weights stored in bfloat16 as well |",
             "| `packed` | TRL's packing: several texts in one row |",
             "| `defaults` | the trainer's defaults: TRL with bfloat16 and gradient checkpointing, Tunix with rows "
             "padded to the longest row allowed |", ""]
    for name, case in found["values"]["cases"].items():
        model, method = name.split("-")
        busy = "" if case["quotable"] else " **The machine was busy: do not quote.**"
        lines += [f"### {MODELS[model]}, {METHODS[method]}", "",
                  f"{case['rows_per_update']} rows per update, {case['shortest']} to {case['longest']} tokens, "
                  f"{percent(case['supervised_share'], 0)} of them supervised; {case['steps']} updates per turn. "
                  f"{case['measured']['date']}, {case['measured']['processor']}.{busy}", ""]
        ordered = sorted(case["contenders"].items(), key=lambda pair: -pair[1]["tokens_per_second"])
        lines += table(["contender", "tokens/s", "padding", "peak resident MiB", "s to first step"], [
            [ENGINES.get(contender, contender),
             f"{each['tokens_per_second']:,.0f}", percent(each['padding_share']),
             f"{each['peak_bytes'] / 2**20:,.0f}", f"{each['seconds_to_first_step']:.1f}"]
            for contender, each in ordered])
        if case.get("unfinished"):
            lines += ["", f"Stopped after {case['limit_seconds']:g} seconds: "
                      + ", ".join(case["unfinished"]) + "."]
        if case.get("left_out"):
            lines += ["", "Not run on this processor: " + ", ".join(case["left_out"]) + "."]
        lines += ratios_line(case["ratios"])
    return lines


def peers_rl(found: dict[str, Any]) -> list[str]:
    """Reinforcement learning compared with TRL."""
    values = found["values"]
    lines = ["Seconds per update of GRPO (sampling completions, rewarding them, the step) of both engines and TRL's "
             f"`GRPOTrainer`: {values['model']} with LoRA of rank {values['lora_rank']}, the same weights, prompts and "
             f"reward, {values['prompts_an_update']} prompts x {values['group']} completions of at most "
             f"{values['new_tokens']} tokens per update, float32 unless it says bf16, AdamW with clipping, "
             f"two threads, fresh processes that take turns; medians of {values['updates']} updates in "
             f"{values['rounds']} rounds, after {values['warm_updates']} to warm up. "
             "`in parts`: the step in several micro batches, as ours.", ""]
    ordered = sorted(values["contenders"].items(), key=lambda pair: pair[1]["seconds_an_update"])
    lines += table(["contender", "s per update", "sampling, s", "sampled tokens/s", "peak resident MiB"], [
        [ENGINES.get(contender, contender), f"{each['seconds_an_update']:.1f}",
         f"{each['drawing_seconds']:.1f}" if "drawing_seconds" in each else "", f"{each['tokens_per_second']:,.0f}",
         f"{each['peak_bytes'] / 2**20:,.0f}"]
        for contender, each in ordered])
    return [*lines, *ratios_line(values["ratios"])]


def peers_dpo(found: dict[str, Any]) -> list[str]:
    """Learning from preferences compared with TRL."""
    values = found["values"]
    lines = ["Seconds per update of DPO of both engines and TRL's `DPOTrainer`, the reference's log probabilities "
             f"included: {values['model']} with LoRA of rank {values['lora_rank']}, the same weights and pairs "
             f"(solutions of GSM8K, preferred to the same solutions with a wrong answer), {values['pairs_an_update']} "
             f"pairs per update, rows of at most {values['longest']} tokens, float32, AdamW with clipping, two "
             f"threads, fresh processes that take turns; medians of {values['updates']} updates in {values['rounds']} "
             f"rounds, after {values['warm_updates']} to warm up. `reference first`: the reference is asked before the "
             "first update, as ours; `defaults`: bfloat16 and gradient checkpointing.", ""]
    lines += table(["contender", "s per update", "peak resident MiB"], [
        [ENGINES.get(contender, contender), f"{each['seconds_an_update']:.1f}", f"{each['peak_bytes'] / 2**20:,.0f}"]
        for contender, each in sorted(values["contenders"].items(), key=lambda pair: pair[1]["seconds_an_update"])])
    return [*lines, *ratios_line(values["ratios"])]


def overhead(found: dict[str, Any]) -> list[str]:
    """The quickstart's loop."""
    v = found["values"]
    limits = v["limits"]
    return [f"{percent(v['share_outside_compiled_step'])} of the quickstart's step time is outside the compiled step "
            f"(limit {percent(limits['share_outside_compiled_step'], 0)}), record-keeping is "
            f"{percent(v['share_of_record_keeping'], 2)} of a step (limit "
            f"{percent(limits['share_of_record_keeping'], 0)}), "
            f"{v['programs_compiled']} programs for "
            f"{v['batch_shapes']} batch shapes, and the whole quickstart takes {v['quickstart_seconds']:.0f} s (limit "
            f"{v['limits']['quickstart_seconds']:.0f}).", "",
            *table(["part", "ms per step"], [
                [name.replace("_", " ").replace("beside", "next to the step:"), f"{value:.3f}"]
                for name, value in v["milliseconds_a_step"].items()]), ""]


def growth(found: dict[str, Any]) -> list[str]:
    """Growing data."""
    v = found["values"]
    rows = [[f"{int(count):,}", f"{read['microseconds_a_token']:.2f}",
             f"{v['planning'][count]['plan_seconds']:.2f}", f"{v['planning'][count]['batch_microseconds_a_token']:.3f}"]
            for count, read in v["reading"].items()]
    digests = ", ".join(f"{name.split('_')[0]} MiB in {seconds:.3f} s" for name, seconds in v["verify"].items())
    first = v["first_step"]
    steps = f" From `train` to its first step with {first['traces']:,} traces: {first['cold_seconds']:.1f} s."
    return [*table(["rows", "reading, µs per token", "plan of an epoch, s", "batching, µs per token"], rows), "",
            f"`verify`'s digest: {digests}.{steps}", ""]


def startup(found: dict[str, Any]) -> list[str]:
    """Start-up times."""
    v = found["values"]
    lines = [f"`workings --help`: {v['help']['median_seconds']:.2f} s, an empty Python "
             f"{v['empty_python']['median_seconds']:.2f} s.", ""]
    if "train" in v:
        lines += table(["`train smoke-tiny`, s until", *v["train"]], [
            [name.replace("_", " "), *(f"{v['train'][engine][name]:.1f}" for engine in v["train"])]
            for name in next(iter(v["train"].values()))])
        lines.append("")
    return lines


PARTS = {"peers": ("Compared with TRL and Tunix", peers),
         "peers_rl": ("Learning from rewards, compared with TRL", peers_rl),
         "peers_dpo": ("Learning from preferences, compared with TRL", peers_dpo),
         "overhead": ("Outside the step", overhead), "growth": ("Growing data", growth),
         "startup": ("Start-up", startup)}


def render() -> str:
    """The whole page."""
    lines = [HEAD]
    for name, (title, part) in PARTS.items():
        found = result(name)
        lines += [f"## {title}", ""]
        if found is None:
            lines += [f"Not measured yet: `python -m benchmarks.{name}`.", ""]
        else:
            lines += [*part(found), origin(found), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(max(deliver(path, text, check="--check" in sys.argv[1:]) for path, text in (
        (PAGE, render()), (CHART, chart()))))
