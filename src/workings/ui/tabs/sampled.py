"""Samples that were drawn to learn from: each prompt's side by side, what was kept and why, and pairs made of them."""

from typing import Any

from workings.errors import RecordError
from workings.ui.sampled import Sampled, Solved, Wanted, sampled_page
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


def run_sampled(site: Site, name: str, solved: Solved = "", fate: str = "", paired: bool = False, look: str = "",
                question: str = "", part: int = 1) -> Sampled:
    """Prompts of a unit of samples with their samples, a page of them; with ``question``, one prompt's samples.

    ``fate`` is `kept` or a reason for which a sample was left out: prompts that have such a sample.
    """
    return sampled_page(site.folder, site.samples, site.folder.path(name), Wanted(
        solved=solved, fate=fate, paired=paired, look=look, question=question, part=part))


def values(site: Site, run: OpenedRun, query: Wanted) -> dict[str, Any]:
    """A page of prompts; samples that cannot be read are a sentence, and the other tabs stay."""
    parameters = {name: getattr(query, name) for name in Wanted.model_fields}
    try:
        return {"wanted": query, "sampled": run_sampled(site, run.name, **parameters), "problem": ""}
    except RecordError as error:
        return {"wanted": query, "sampled": None, "problem": str(error)}


TAB = Tab(key="sampled", title="Samples", position=11, query=Wanted, values=values, answer=run_sampled,
          shown=lambda run: run.row.kind == "samples")
