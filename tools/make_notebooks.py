"""Make `notebooks/*.ipynb` from shipped recipes, one for each of Kaggle's accelerators.

    python -m tools.make_notebooks

They name no digest of a wheel, because a file cannot hold that of the commit it is in: they take the one that is
next to the wheel. `workings launch --for kaggle` writes notebooks that do name it.
"""

from tools.generated import ROOT
from workings.config.load import load_recipe
from workings.engines.registry import engine_libraries
from workings.kaggle.notebook import NotebookRequest, find_machine, notebook_text
from workings.publish.kaggle import processes_on

TARGET = ROOT / "notebooks"
RECIPES = ("gemma-2b-v5e8", "gemma-2b-t4x2")


def render(name: str) -> str:
    """The notebook of a shipped recipe."""
    loaded = load_recipe(name)
    machine = find_machine("", loaded.recipe.device)
    return notebook_text(NotebookRequest(name=name, recipe=loaded.text, data={}, machine=machine,
                                         libraries=engine_libraries(loaded.recipe.engine),
                                         processes=processes_on(machine, loaded.recipe)))


def main() -> None:
    """Write all of them."""
    TARGET.mkdir(exist_ok=True)
    for name in RECIPES:
        (TARGET / f"{name}.ipynb").write_text(render(name), encoding="utf-8")


if __name__ == "__main__":
    main()
