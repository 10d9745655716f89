"""`workings parity`: do both engines compute the same."""

from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.output import JsonFlag, answer

if TYPE_CHECKING:
    from workings.runs.parity import Parity


def parity_command(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a shipped recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", help="Overrides, e.g. method.name=lora or device=gpu.")] = None,
    steps: Annotated[int, typer.Option("--steps", min=6, help="Training steps that are compared.")] = 20,
    own_model: Annotated[bool, typer.Option(
        "--whole", help="The recipe's own model instead of a small one of the same architecture.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare the engines on a recipe: same weights, same batches, float32."""
    from workings.runs.parity import parity

    result = parity(recipe, overrides or (), own_model=own_model, steps=steps)
    answer(result.to_json(), as_json=as_json, text=table(result))
    if not result.passed:
        raise typer.Exit(1)


def table(parity: "Parity") -> str:
    """The comparison for people."""
    from workings.runs.parity import TOLERANCES

    lines = [f"parity     {parity.model}; {parity.steps} steps, jax and torch, float32: "
             + ("passed" if parity.passed else "FAILED")]
    # Fields of the result have the names of their tolerances.
    for name, limit in TOLERANCES.items():
        value = getattr(parity, name)
        verdict = "" if value <= limit else "  <- too large"
        where = f"  {parity.worst_gradient}" if name == "gradient" else ""
        lines.append(f"  {name:<10}{value:>10.1e}  at most {limit:.0e}{verdict}{where}")
    return "\n".join(lines)
