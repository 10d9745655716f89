"""What is different on Kaggle: where files stay, how long a session lasts, where tokens come from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from workings.doctor.finding import Finding
from workings.hardware.catalog import targets

KEPT = Path("/kaggle/working")


def check_kaggle(out: Path, platform: str, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Findings where this is a Kaggle session; none elsewhere.

    Args:
        out: where runs are written.
        platform: of the accelerator that is here.
        environment: variables of this process.
    """
    kind = environment.get("KAGGLE_KERNEL_RUN_TYPE", "")
    if not kind:
        return
    hours = {row.kaggle_session_hours for row in targets().values()
             if row.platform == platform and row.kaggle_session_hours}
    yield Finding(id="kaggle", judgement="fine",
                  what=f"a Kaggle session ({kind})" + (f", at most {max(hours)} hours" if hours else ""),
                  why="a session ends when its hours are over: checkpoints decide what is left, and --resume goes on")
    if not out.absolute().is_relative_to(KEPT):
        yield Finding(id="kaggle.output", judgement="problem", what=f"runs would be written to {out}",
                      why=f"only what lies in {KEPT} is kept when the session ends", mend=f"--out {KEPT}/runs/NAME")
    if "HF_TOKEN" not in environment:
        yield Finding(id="kaggle.token", judgement="note", what="HF_TOKEN is not set",
                      why="Kaggle's secrets reach a notebook through kaggle_secrets only; gated models such as Gemma "
                      "need the token in the environment, or the model as an input of the notebook",
                      mend="os.environ['HF_TOKEN'] = kaggle_secrets.UserSecretsClient().get_secret('HF_TOKEN')")
