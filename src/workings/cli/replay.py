"""`workings runs replay`: recompute some training steps and compare them with the record."""

from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import DataOption, DeviceOption, FirstWeightsOption, RunArgument
from workings.cli.output import JsonFlag, answer, say

# 3 is an open result, as in `compare` and `gate`: no proof, and no failure either.
EXIT_CODES = {"passed": 0, "failed": 1, "inconclusive": 3}


def replay_command(
    run: RunArgument,
    start: Annotated[int | None, typer.Option(
        "--from", min=0, help="Step of the checkpoint to start from, 0: the first weights; by default the earliest.",
    )] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps to recompute.")] = 10,
    predictions: Annotated[int, typer.Option(
        "--predictions", min=0, help="Number of items per evaluation and per --samples to answer again.")] = 8,
    seed: Annotated[int | None, typer.Option(
        "--seed", min=0, help="Selects these items; by default a random one, which is recorded.")] = None,
    samples: Annotated[list[Path] | None, typer.Option(
        "--samples", help="A directory of samples to recompute as well; may be repeated.")] = None,
    data: DataOption = None,
    weights: FirstWeightsOption = None,
    device: DeviceOption = None,
    fsdp: Annotated[int, typer.Option(
        "--fsdp", min=0, help="Devices to split rows and parameters over; 0: as the recipe says.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Recompute some training steps and compare them with the record.

    Compares losses, gradient norms, weights and completions: bit for bit if processor, threads, versions and code are
    the recorded ones, else within a tolerance. Controls with a wrong seed, learning rate, row or checkpoint must
    differ. Nothing is written.
    """
    from workings.runs.open_model import AS_RECORDED
    from workings.runs.replay.reopen_run import ReplayInputs
    from workings.runs.replay.replay import ReplayRequest, replay_run

    request = ReplayRequest(start=start, steps=steps, predictions=predictions, seed=seed,
                            # Typer gives None for an absent option, even a repeatable one.
                            samples=tuple(samples or ()),
                            inputs=ReplayInputs(data=data, weights=weights, device=device or AS_RECORDED, fsdp=fsdp))
    facts = replay_run(run, request, say).facts
    values = {key: facts[key] for key in ("verdict", "sentence", "mode", "reasons")}
    values |= {"steps": len(facts["lines"]), "from_step": facts["from_step"], "lines": facts["lines"],
               "controls": {key: control["outside"] for key, control in facts["controls"].items()},
               "predictions": facts["predictions"], "weights": facts["weights"],
               "differing": facts["conditions"]["differing"]}
    values |= {"teacher": facts["teacher"]} if "teacher" in facts else {}
    answer(values, as_json=as_json, text=_text(facts))
    if code := EXIT_CODES[facts["verdict"]]:
        raise typer.Exit(code)


def _text(facts: dict[str, Any]) -> str:
    """Format the verdict, each control, and the comparisons."""
    lines = [facts["sentence"]]
    for name, control in facts["controls"].items():
        # In capitals, because such a control voids the whole replay.
        outcome = f"differs, as it must (steps: {control['steps']})" if control["outside"] else "WITHIN the tolerance"
        lines.append(f"  control {name}: {control['what']}: {outcome}")
    compared = facts["weights"]
    lines.append(f"  weights: {compared['absent']}" if "absent" in compared else
                 f"  weights after step {compared['step']}: {compared['files_identical']} of {compared['files']} files "
                 f"identical, largest relative difference {compared['largest_difference']:.2g}")
    compared = facts["predictions"]
    lines.append(f"  completions: {compared['absent']}" if "absent" in compared else
                 f"  completions: {compared['same']} of {compared['asked']} equal the recorded text")
    return "\n".join(lines)
