"""Samples completions of prompts for training, with a sealed run's model or other weights."""

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
    """Samples completions with a run's last checkpoint and seals them at ``out``.

    Args:
        run: a sealed run directory.
        prompts: questions with their expected answers; see `workings.runs.data.datasets.read_prompts`.
        out: directory to make for the unit.
        request: settings of sampling and selection.
        device: where to sample; by default the device of the run's recipe.
        by_plan: if given, the batch size is as large as fits the device, and this is called with a sentence that says
            how large, and why. None: the batch size of the request.

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
    """Samples completions with weights in Hugging Face's format (a folder, or a Hub id) and seals them at ``out``.

    Args:
        model: a folder with ``config.json``, safetensors and tokenizer, or an id such as ``google/gemma-2b``.
        prompts: as in `sample_run`.
        out: directory to make for the unit.
        request: as in `sample_run`; its settings name the form of the model's answers, because there is no recipe.
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
    """Raises `RequestError` for a wrong request before a model is opened, which may take minutes."""
    refuse_existing(out)
    request.selection.check(prompts, request.settings.form)


def _sized(opened: TrainedModel | OpenedWeights, items: Sequence[Item], out: Path, request: SampleRequest,
           by_plan: Say | None) -> SampleRequest:
    """The request with the largest batch size that fits, or that of an interrupted attempt."""
    if by_plan is None or not items:
        return request
    before = partial_unit_path(out) / EVALUATION_CONFIG
    if before.is_file():
        # Free memory may have changed, and another batch size might give other texts.
        rows = int(loads(before.read_bytes())["decoding"]["batch_size"])
        why = f"{rows} completions at a time, as before the interruption"
    else:
        session = opened.session
        longest = max(len(session.template.prompt_ids(item.prompt, item.history)) for item in items)
        rows, why = completions_at_a_time(opened.request, session.engine.describe(), longest=longest,
                                    new_tokens=request.settings.max_new_tokens,
                                    can_train=isinstance(opened, TrainedModel))
    by_plan(why)
    return replace(request, settings=replace(request.settings, batch_size=rows))
