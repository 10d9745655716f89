"""`workings select`: choose once more among samples that were drawn."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag
from workings.cli.sample import (
    BalanceOption,
    KeepOption,
    MostOption,
    MostPairsOption,
    NearDuplicatesOption,
    PairsOption,
    PreferOption,
    ValidStepsOption,
    answer_with,
)


def select_command(
    samples: Annotated[Path, typer.Argument(help="A sealed directory of samples.")],
    out: Annotated[Path, typer.Option("--out", help="Directory to make for the new selection.")],
    keep: KeepOption = "correct",
    valid_steps: ValidStepsOption = False,
    most: MostOption = 0,
    prefer: PreferOption = "first",
    near_duplicates: NearDuplicatesOption = 1.0,
    balance: BalanceOption = "none",
    pairs: PairsOption = None,
    most_pairs: MostPairsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Choose by other rules among samples that were drawn, without drawing again.

    The same completions and scores are sealed as a new unit, with what these rules keep of them.
    """
    from workings.samples.pairs import PairRule
    from workings.samples.reselect import reselect
    from workings.samples.selection import Selection

    unit = reselect(
        samples, out, Selection(keep=keep, valid_steps=valid_steps, most_per_prompt=most, prefer=prefer,
                                near_duplicates=near_duplicates, balance=balance),
        PairRule.from_options(pairs, most_pairs))
    answer_with(unit, pairs is not None, as_json=as_json)
