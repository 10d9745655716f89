"""Draw completions of prompts with a model, a sealed run's or weights that were not trained here, to learn from."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.evaluation.unit import refuse_existing
from workings.planning.sampling_batch_size import completions_at_a_time
from workings.record.canonical import loads
from workings.record.layout import EVALUATION_CONFIG, partial_unit_path
from workings.runs.open_model import AS_RECORDED, OpenedWeights, TrainedModel, WeightsRequest, open_run, open_weights
from workings.samples.draw import SampleRequest, sample
from workings.samples.unit import SampleUnit
from workings.scoring.items import Item

Say = Callable[[str], None]


def sample_run(run: Path, prompts: Sequence[Item], out: Path, *, request: SampleRequest, device: str = AS_RECORDED,
               by_plan: Say | None = None) -> SampleUnit:
    """Draw completions with a run's last checkpoint and seal them at ``out``.

    Args:
        run: a sealed run directory.
        prompts: questions with their expected answers; see `workings.runs.data.datasets.read_prompts`.
        out: directory to make for the unit.
        request: what is drawn, and what is kept of it.
        device: where to draw; by default what the run's recipe asked for.
        by_plan: as many completions at a time as fit the device, in place of the request's batch size; called with
            the sentence that says how many, and why. None: the request's.

    Raises:
        RequestError: no sealed run, no prompts, ``out`` exists, or the device is absent.
        RecordError: the run has no intact checkpoint.
    """
    _check(prompts, out, request)
    opened = open_run(run, device)
    facts = {"run": opened.run.path.resolve().name, "step": opened.checkpoint.step}
    return sample(opened.session, prompts, out, request=_sized(opened, prompts, out, request, by_plan),
                  made_from=opened.root, facts=facts)


def sample_weights(model: str, prompts: Sequence[Item], out: Path, *, request: SampleRequest, weights: WeightsRequest,
                   by_plan: Say | None = None) -> SampleUnit:
    """Draw completions with weights in Hugging Face's format (a folder, or a Hub id) and seal them at ``out``.

    Args:
        model: a folder with ``config.json``, safetensors and tokenizer, or an id such as ``google/gemma-2b``.
        prompts: as in `sample_run`, like all that is not named here.
        out: directory to make for the unit.
        request: its settings name the form that the model writes, for there is no recipe to take it from.
        weights: chat template, engine, device and number format.
        by_plan: as in `sample_run`.

    Raises:
        RequestError: as `workings.runs.open_model.open_weights`, or as `sample_run`.
    """
    _check(prompts, out, request)
    opened = open_weights(model, weights)
    return sample(opened.session, prompts, out, request=_sized(opened, prompts, out, request, by_plan), made_from=None,
                  facts=opened.facts)


def _check(prompts: Sequence[Item], out: Path, request: SampleRequest) -> None:
    """What is wrong with the request is said before a model is opened, which may take minutes."""
    refuse_existing(out)
    request.selection.check(prompts, request.settings.form)


def _sized(opened: TrainedModel | OpenedWeights, items: Sequence[Item], out: Path, request: SampleRequest,
           by_plan: Say | None) -> SampleRequest:
    """The request with as many completions at a time as fit, or as an interrupted attempt began with."""
    if by_plan is None or not items:
        return request
    before = partial_unit_path(out) / EVALUATION_CONFIG
    if before.is_file():
        # Free memory may be another than then, and a batch of another size might draw other texts.
        rows = int(loads(before.read_bytes())["decoding"]["batch_size"])
        why = f"{rows} completions at a time, as where it was interrupted"
    else:
        session = opened.session
        longest = max(len(session.template.prompt_ids(item.prompt, item.history)) for item in items)
        rows, why = completions_at_a_time(opened.request, session.engine.describe(), longest=longest,
                                    new_tokens=request.settings.max_new_tokens,
                                    can_train=isinstance(opened, TrainedModel))
    by_plan(why)
    return replace(request, settings=replace(request.settings, batch_size=rows))
