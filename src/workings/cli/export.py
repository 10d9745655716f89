"""`workings export`: a run's model as a folder that transformers opens."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def export_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    out: Annotated[Path, typer.Option("--out", help="Directory to make for the model.")],
    device: Annotated[str, typer.Option("--device", help="auto, cpu, gpu or tpu.")] = "as recorded",
    as_json: JsonFlag = False,
) -> None:
    """Write a run's model as a folder that transformers opens.

    Weights, config.json, tokenizer, chat template and stop tokens of the last checkpoint, in Hugging Face's format.
    """
    from workings.publish.copied_files import Carried
    from workings.publish.export import export_run

    exported = export_run(run, out, device=device)
    carried = exported.carried
    # What lies beside the first weights is taken over, or named with the reason why not.
    if isinstance(carried, Carried):
        taken = "".join([f"{', '.join(carried.files) or 'nothing'} of {carried.source}",
                         *(f"\nleft there: {name}, because {why}" for name, why in carried.left.items())])
    else:
        taken = f"nothing: {carried.absent}"
    answer(exported.to_json(), as_json=as_json,
           text=f"{exported.run} after step {exported.step}: {len(exported.files) + 1} files in {out}\n"
                f"taken over: {taken}\n"
                f'to open: AutoModelForCausalLM.from_pretrained("{out}")')
