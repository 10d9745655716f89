"""`workings export`: a run's model as a folder that transformers or llama.cpp opens."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from workings.cli.options import RunArgument
from workings.cli.output import answer


def export_command(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="Directory to make for the model.",
                                             show_default="the run's name and the format, here")] = None,
    file_format: Annotated[Literal["safetensors", "gguf"], typer.Option(
        "--format", help="safetensors (transformers, vLLM) or gguf (llama.cpp).")] = "safetensors",
    gguf_type: Annotated[Literal["bf16", "q8_0"] | None, typer.Option(
        "--type", help="Number format of a GGUF file: bf16 or q8_0 (half the size). By default bf16.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, gpu or tpu.")] = "as recorded",
) -> None:
    """Write a run's model as a folder that other programs open.

    Weights, tokenizer, chat template and stop tokens of the last checkpoint: in Hugging Face's format, or as a GGUF
    file.
    """
    from workings.errors import RequestError
    from workings.hints import typed_path
    from workings.publish.export import GGUF, GGUF_FILE, export_run
    from workings.publish.gguf_file import TYPES
    from workings.runs.open_model import follow_run, processes_of

    if gguf_type and file_format != GGUF:
        raise RequestError(f"--type {gguf_type} does not apply to --format {file_format}",
                           f"--type with --format {GGUF} only", f"--format {GGUF} --type {gguf_type}")
    out = Path(f"{run.resolve().name}-{file_format}") if out is None else out
    if out.suffix == f".{GGUF}":
        raise RequestError(f"--out {out} names a file", "a directory to make; it will hold the model and what belongs "
                           "to it", f"--out {out.with_suffix('')} --format {GGUF}")
    with processes_of(run) as group:
        if not group.is_coordinator:
            follow_run(run, device, group)
            return
        number_format = gguf_type or (TYPES[0] if file_format == GGUF else "")
        exported = export_run(run, out, device=device, gguf_type=number_format, group=group)
    lines = [f"{exported.run} after step {exported.step}: {len(exported.files) + 1} files in {out}"]
    carried = exported.carried_over  # files next to the base weights
    if "absent" in carried:
        lines.append(f"copied files: nothing: {carried['absent']}")
    else:
        lines.append(f"copied files: {', '.join(carried['files']) or 'nothing'} of {carried['from']}")
        lines += [f"left there: {name}, because {why}" for name, why in carried.get("left", {}).items()]
    to_open = f'AutoModelForCausalLM.from_pretrained("{out}")'
    if file_format == GGUF:
        to_open = f"llama-cli -m {typed_path(out / GGUF_FILE)} --jinja"
    lines += [*(f"note: {note}" for note in exported.notes), f"to open: {to_open}"]
    answer(exported.to_json(), "\n".join(lines))
