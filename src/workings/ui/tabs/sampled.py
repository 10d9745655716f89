"""Samples that were drawn to learn from: each prompt's side by side, what was kept and why, and pairs made of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.record.layout import SUMS
from workings.record.seal import root_digest
from workings.reports.rollouts import visible
from workings.samples.candidates import SampleOrigin
from workings.samples.pairs import make_pairs
from workings.samples.selection import Selection
from workings.ui.folder import Folder
from workings.ui.requests import paged
from workings.ui.rollouts import COMPLETIONS_A_PAGE, CUT_ALONE, MAX_CHARACTERS_SHOWN
from workings.ui.sample_reader import PromptOutline, SampleReader, UnitOutline
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab

Solved = Literal["", "never", "sometimes", "always"]


class DrawnSample(BaseModel):
    """One sample of a prompt."""

    number: int
    text: str = Field(description="Invisible control characters are written out")
    more: int = Field(default=0, description="Characters that were cut off here")
    missing: str = Field(default="", description="Why there is no text")
    score: float
    fate: str = Field(description="`kept`, or why it was left out")
    seed: int | None = None
    tokens: int | None = None
    end: str = Field(default="", description="`stop`: it ended itself; `length`: it was cut off; empty: not recorded")


class DrawnPair(BaseModel):
    """A better and a worse sample of a prompt."""

    chosen: DrawnSample
    rejected: DrawnSample


class DrawnPrompt(BaseModel):
    """A prompt with its samples."""

    id: str
    prompt: str
    expected: str
    solved: str = Field(description="`never`, `sometimes` or `always`")
    right: int
    count: int
    further: int = Field(default=0, description="Samples that are left out here")
    samples: list[DrawnSample]
    pairs: list[DrawnPair]


class Sampled(BaseModel):
    """A unit of samples: rules, counts, and a page of its prompts, or of one prompt's samples."""

    run: str
    model: str = Field(description="Who drew them")
    drawn_by: str = Field(default="", description="The run that drew them, where it is in this folder")
    temperature: float
    seed: int
    samples_each: int
    form: str
    rules: list[str]
    counts: dict[str, Any]
    agrees: bool = Field(description="Whether the record names the counts that come of its predictions")
    pair_rule: str = Field(default="", description="How pairs were made; empty: none were asked for")
    pairs: int
    reasons: dict[str, int] = Field(description="Samples by what became of them")
    found: int
    page: int
    pages: int
    rows: list[DrawnPrompt]


class Wanted(BaseModel):
    """Filters of the shown prompts."""

    solved: Solved = ""
    fate: str = Field(default="", max_length=100)
    paired: bool = False
    look: str = Field(default="", max_length=500)
    question: str = Field(default="", max_length=2_000)
    part: int = 1


def sampled_page(folder: Folder, reader: SampleReader, unit: Path, query: Wanted) -> Sampled:
    """A page of prompts that pass all filters or, with ``question``, a page of that prompt's samples.

    A text that is searched for is looked up in every prompt that passes the other filters, which reads all of these.

    Raises:
        RecordError: predictions or rules are missing or damaged.
        RequestError: no such prompt, or a page that does not exist.
    """
    outline = reader.outline(unit)
    decoding, model = outline.config["decoding"], outline.config["model"]
    head: dict[str, Any] = {
        "run": folder.name(unit), "model": str(model.get("run") or model.get("id") or "a model"),
        "drawn_by": _run_of(folder, outline), "temperature": decoding["temperature"], "seed": decoding["seed"],
        "samples_each": decoding["samples"], "form": str(outline.config["form"]),
        "rules": rules_text(outline.selection), "counts": outline.counts.to_json(), "agrees": outline.agrees,
        "pair_rule": _pair_text(outline), "pairs": outline.pairs,
        # Kept first, then the reasons by name: the order of the record is that of the file.
        "reasons": {"kept": outline.counts.kept, **dict(sorted(outline.counts.left_out.items()))}}
    if query.question:
        row, pages = _alone(reader, unit, outline, query)
        return Sampled(**head, found=1, page=query.part, pages=pages, rows=[row])
    passing = list(_passing(reader, unit, outline, query))
    # So many prompts that a page has about as many samples, however many each has.
    shown, pages = paged(passing, query.part, max(1, COMPLETIONS_A_PAGE // max(1, decoding["samples"])))
    return Sampled(**head, found=len(passing), page=query.part, pages=pages,
                   rows=[_prompt(reader, unit, outline, prompt, MAX_CHARACTERS_SHOWN) for prompt in shown])


def rules_text(selection: Selection) -> list[str]:
    """Rules by which samples were kept, in words."""
    rules = [{"correct": "right answers", "best": "of each prompt the best, where its score is above 0",
              "all": "all that can be learned from"}[selection.keep]]
    if selection.valid_steps:
        rules.append("no equation that does not hold")
    rules.append("no text of a prompt twice" if selection.near_duplicates == 1 else
                 f"none more similar than {selection.near_duplicates:g} to a kept one of its prompt")
    first = {"first": "the first drawn", "shortest": "the shortest", "longest": "the longest"}[selection.prefer]
    if selection.most_per_prompt:
        rules.append(f"at most {selection.most_per_prompt} of a prompt, {first} first")
    if selection.balance != "none":
        rules.append("as many of each difficulty" if selection.balance == "difficulty" else
                     "as many of prompts that are seldom, sometimes and often solved")
    return rules


def _pair_text(outline: UnitOutline) -> str:
    rule = outline.pair_rule
    if rule is None:
        return ""
    how = {"best-worst": "the best sample against the worst",
           "right-wrong": "the first right sample against the first that is not"}[rule.rule]
    return f"{how}, at most {rule.most_per_prompt} of a prompt"


def _run_of(folder: Folder, outline: UnitOutline) -> str:
    """The run whose digest the unit names; only runs of the same name are asked for theirs."""
    name, root = outline.config["model"].get("run"), outline.config["made_from"]
    # Names are compared before digests, because each digest reads a list of sums.
    return next((folder.name(run) for run in folder.runs() if run.name == name and (run / SUMS).is_file()
                 and root_digest(run) == root), "")


def _passing(reader: SampleReader, unit: Path, outline: UnitOutline, query: Wanted) -> Iterator[PromptOutline]:
    text = query.look.casefold()
    for prompt in outline.prompts:
        # Cheap filters first: they need the outline alone.
        if query.solved and prompt.solved != query.solved:
            continue
        if (query.fate and query.fate not in prompt.fates) or (query.paired and not prompt.pairs):
            continue
        # Last, because it alone reads the file.
        if not text or text in prompt.id.casefold() or any(
                text in str(row[key]).casefold() for row in reader.rows(unit, prompt)
                for key in ("prompt", "gold", "completion")):
            yield prompt


def _alone(reader: SampleReader, unit: Path, outline: UnitOutline, query: Wanted) -> tuple[DrawnPrompt, int]:
    prompt = next((other for other in outline.prompts if other.id == query.question), None)
    if prompt is None:
        raise RequestError(f"prompt {query.question[:80]!r}", "the id of a prompt of these samples", "")
    shown, pages = paged(range(len(prompt.fates)), query.part, COMPLETIONS_A_PAGE)
    return _prompt(reader, unit, outline, prompt, CUT_ALONE, range(shown[0], shown[-1] + 1)), pages


def _prompt(reader: SampleReader, unit: Path, outline: UnitOutline, prompt: PromptOutline, most: int,
            part: range = range(COMPLETIONS_A_PAGE)) -> DrawnPrompt:
    """A prompt with its samples in ``part``, each cut after ``most`` characters."""
    rows = reader.rows(unit, prompt)
    # All samples of the prompt are in memory already; only the page is sent.
    samples = {row["sample"]: _sample(row, fate, most) for row, fate in zip(rows, prompt.fates, strict=True)}
    # Of all samples, also those that are not shown: a pair may have one of each.
    selected_pairs = make_pairs(
        [rows], outline.pair_rule, SampleOrigin.from_config(outline.config)) if outline.pair_rule else ()
    pairs = [DrawnPair(**{side: samples[pair.metadata[f"{side}_sample"]] for side in ("chosen", "rejected")})
             for pair in selected_pairs]
    samples_of_page = list(samples.values())[part.start:part.stop]
    return DrawnPrompt(id=prompt.id, prompt=visible(str(rows[0]["prompt"])), expected=visible(str(rows[0]["gold"])),
                       solved=prompt.solved, right=prompt.right, count=len(rows), samples=samples_of_page, pairs=pairs,
                       further=max(0, len(rows) - part.stop))


def _sample(row: dict[str, Any], fate: str, most: int) -> DrawnSample:
    # A value that does not exist is an object with the reason.
    completion, end, tokens = row["completion"], row["finish_reason"], row["completion_tokens"]
    text = visible(completion) if isinstance(completion, str) else ""
    return DrawnSample(
        number=row["sample"], text=text[:most], more=max(0, len(text) - most), score=row["score"], fate=fate,
        missing=completion.get("absent", "") if isinstance(completion, dict) else str(row.get("error", "")),
        seed=row.get("seed"), tokens=tokens if isinstance(tokens, int) else None,
        end=end if isinstance(end, str) else "")


def run_sampled(site: Site, name: str, query: Annotated[Wanted, Query()]) -> Sampled:
    """Prompts of a unit of samples with their samples, a page of them; with ``question``, one prompt's samples.

    ``fate`` is `kept` or a reason for which a sample was left out: prompts that have such a sample.
    """
    return sampled_page(site.folder, site.samples, site.folder.path(name), query)


def values(site: Site, run: OpenedRun, query: Wanted) -> dict[str, Any]:
    """A page of prompts; samples that cannot be read are a sentence, and the other tabs stay."""
    try:
        return {"wanted": query, "sampled": run_sampled(site, run.name, query), "problem": ""}
    except RecordError as error:
        return {"wanted": query, "sampled": None, "problem": str(error)}


TAB = Tab(key="sampled", title="Samples", position=11, query=Wanted, values=values, answer=run_sampled,
          shown=lambda run: run.row.kind == "samples")
