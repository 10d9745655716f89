"""No command fails where the terminal is not UTF-8, or where a path is not ASCII."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workings.config.load import load_recipe

PLAIN = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


@pytest.mark.parametrize("environment", [
    {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
])
def test_every_character_is_shown_or_escaped(environment: dict[str, str], tmp_path: Path) -> None:
    recipe = tmp_path / "rezept ß.yaml"
    recipe.write_text(load_recipe("smoke-tiny").text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "workings", "data", "preview", recipe, "--n", "1"], cwd=tmp_path,
                          env=PLAIN | environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"\\u23ce" in done.stdout or "⏎".encode() in done.stdout
