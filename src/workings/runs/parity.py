"""`parity`: compares both engines on the same weights and batches, in float32.

It compares logits, loss and gradients of single batches, the losses of a short training run, and a run that one engine
begins and the other ends from its checkpoint. Weights are exchanged as files. Gradients are read from the checkpoint of
the first step: AdamW's first moments are then the gradients, up to a common factor.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from workings.config.load import LoadedRecipe, check_recipe, load_recipe
from workings.config.method import FULL
from workings.config.training import AdamWConfig, OptimizerConfig
from workings.data.batches import Batches, Position
from workings.data.rows import build_rows
from workings.engines.base import ComparableEngine, Engine, EngineRequest, State
from workings.engines.registry import find_engine
from workings.engines.safetensors_file import TensorFile
from workings.errors import RequestError
from workings.inputs.resolve import resolve
from workings.models.batch import Batch
from workings.models.registry import family_of
from workings.models.shapes import check_shape
from workings.runs.smoke import shrink

ENGINES = ("jax", "torch")
"""The compared engines."""
INITIALIZER = "torch"
"""The engine that makes the initial weights and adapters of both."""
TOLERANCES = {"logit": 1e-4, "loss": 1e-5, "gradient": 1e-4, "curve": 1e-4, "resume": 1e-4}
"""Largest allowed differences: absolute for logits and losses, relative for gradients (`gradient_difference`)."""
COMPARED_BATCHES = 3
"""Number of batches whose loss is compared."""
GRADIENT_FLOOR = 1e-3
"""Smallest gradient of a tensor, as a share of the largest gradient of all, that is compared relative to itself."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Largest differences between the engines."""

    model: str
    steps: int
    logit: float
    loss: float
    gradient: float
    curve: float
    resume: float
    worst_gradient: str
    """Name of the tensor with the largest relative difference."""

    @property
    def passed(self) -> bool:
        """Whether every difference is within its tolerance; NaN is not."""
        return all(getattr(self, name) <= limit for name, limit in TOLERANCES.items())

    def to_json(self) -> dict[str, Any]:
        """Keys of ``parity --json``."""
        values = {f"max_{name}_difference": getattr(self, name) for name in TOLERANCES}
        return {"passed": self.passed, **values, "tolerances": TOLERANCES, "worst_gradient": self.worst_gradient,
                "model": self.model, "steps": self.steps, "engines": list(ENGINES)}

    def text(self) -> str:
        """The comparison for the terminal."""
        lines = [f"parity     {self.model}; {self.steps} steps, {' and '.join(ENGINES)}, float32: "
                 + ("passed" if self.passed else "FAILED")]
        for name, limit in TOLERANCES.items():
            value = getattr(self, name)
            verdict = "" if value <= limit else "  <- too large"
            where = f"  {self.worst_gradient}" if name == "gradient" else ""
            lines.append(f"  {name:<10}{value:>10.1e}  at most {limit:.0e}{verdict}{where}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ParityCase:
    """Inputs of both engines."""

    request: EngineRequest
    batches: list[Batch]
    rates: list[float]
    weights: Path
    folder: Path
    """Folder for files of the engines; shared files are made once."""
    initializer: str = INITIALIZER
    _opened: dict[tuple[str, EngineRequest], Engine] = field(default_factory=dict)

    def engine(self, name: str, **changes: Any) -> Engine:
        """An engine for this case; opened once per request, because opening may mean compiling."""
        request = replace(self.request, weights=self.weights, **changes)
        if (name, request) not in self._opened:
            self._opened[name, request] = find_engine(name).engine.open(request)
        return self._opened[name, request]

    def initial_state(self, engine: Engine, optimizer: OptimizerConfig) -> State:
        """The first state on an engine that was opened with this optimizer."""
        if self.request.method.trains_all_weights:
            return engine.load(self.weights)
        # New adapters are random, and random numbers differ between engines.
        fresh = self.folder / f"fresh-{optimizer.name}"
        if not fresh.exists():
            fresh.mkdir()
            initializer = self.engine(self.initializer, optimizer=optimizer)
            initializer.save(initializer.load(self.weights), fresh)
        return engine.restore(fresh)


def parity(recipe: str | LoadedRecipe, overrides: Sequence[str] = (), *, own_model: bool = False,
           steps: int = 20) -> Parity:
    """Compares the engines on a recipe's model, data and optimizer, in float32. Raises `RequestError`.

    Without an override of ``device`` the comparison runs on the CPU; ``own_model``: the recipe's own model instead of a
    small one of the same architecture.
    """
    loaded = load_recipe(recipe, overrides)
    loaded = comparable(loaded, steps, on_cpu=not any(word.startswith("device=") for word in overrides))
    if not own_model:
        loaded = shrink(loaded, steps)
    with tempfile.TemporaryDirectory(prefix="workings-parity-") as folder:
        return compare(make_case(loaded, Path(folder), small=not own_model), loaded.recipe.name)


def comparable(loaded: LoadedRecipe, steps: int, *, on_cpu: bool, attention: str = "plain") -> LoadedRecipe:
    """The recipe in float32 on one device, with this number of steps."""
    values = loaded.recipe.model_dump(mode="json", exclude_unset=True)
    # In a coarser format rounding alone would exceed the tolerances.
    values["precision"] = {"parameters": "fp32", "compute": "fp32", "moments": "fp32"}
    # One device avoids differences in the order of sums.
    values["mesh"] = {"fsdp": 1, "tp": 1}
    values["training"] |= {"steps": steps}
    # Each engine drops other inputs of adapters.
    values.get("method", {}).pop("dropout", None)
    # A recipe whose warmup does not end before its last step is refused, and few steps are compared.
    if values["training"].get("warmup_steps", 0) >= steps:
        values["training"]["warmup_steps"] = steps // 4
    # Only kernels that both engines have.
    values["memory"] = values.get("memory", {}) | {"attention": attention}
    if on_cpu:
        values["device"] = "cpu"
    return replace(loaded, recipe=check_recipe(values, f"{loaded.origin} as compared"))


def make_case(loaded: LoadedRecipe, folder: Path, *, small: bool, initializer: str = INITIALIZER,
              changes: Mapping[str, Any] = MappingProxyType({})) -> ParityCase:
    """Batches of the recipe that `comparable` gives, and weights on disk that both engines load.

    ``small``: a small shape in which rows of a few dozen tokens use all features, with ``changes`` of its fields.
    """
    resolved, recipe = resolve(loaded), loaded.recipe
    rows = build_rows(resolved.data.traces, resolved.tokenizer, resolved.template, recipe.data)
    shape, weights = resolved.shape, resolved.weights
    if small:
        shape = check_shape(replace(family_of(shape).with_small_windows(shape), **changes))
    batches = Batches(rows, seed=recipe.seed, rows_per_micro_batch=recipe.batch.micro_batch,
                      accumulation=recipe.batch.accumulation, data_config=recipe.data)
    first_batches, position = [], Position()
    for _ in range(recipe.training.steps):
        batch, position = batches.at(position)
        first_batches.append(batch)
    request = EngineRequest.of(recipe, shape)
    start = folder / "start"
    if weights.directory is None and not start.exists():
        start.mkdir()
        engine = find_engine(initializer).engine.open(replace(request, method=FULL))
        engine.export(engine.init(recipe.seed), start)
    return ParityCase(request=request, batches=first_batches, weights=weights.directory or start, folder=folder,
                      initializer=initializer,
                      rates=[recipe.training.rate_at(step) for step in range(1, recipe.training.steps + 1)])


def compare(case: ParityCase, title: str) -> Parity:
    """All comparisons of one case."""
    losses, checkpoints, steps = {}, {}, len(case.batches)
    # A checkpoint in the middle, where the moments that the other engine reads are not zero.
    half = steps // 2
    for name in ENGINES:
        engine = case.engine(name)
        state, before = run_steps(case, engine, case.initial_state(engine, case.request.optimizer), 0, half)
        checkpoints[name] = case.folder / f"half-{name}"
        checkpoints[name].mkdir()
        engine.save(state, checkpoints[name])
        # This engine continues from the live state, the other from the file, so that saving errors show.
        _, after = run_steps(case, engine, state, half, steps)
        losses[name] = before + after
    resumed = []
    for beginner, other in permutations(ENGINES):
        engine = case.engine(other)
        _, after = run_steps(case, engine, engine.restore(checkpoints[beginner]), half, steps)
        resumed.append(max_abs_difference(after, losses[beginner][half:]))
    gradient, worst = gradient_difference(*(gradients(case, name) for name in ENGINES))
    return Parity(
        model=f"{title}: {case.request.shape.family}, {case.request.method.name}, {case.request.optimizer.name}",
        steps=steps, logit=max_abs_difference(*(trained_logits(case, name) for name in ENGINES)),
        loss=max_abs_difference(*(first_losses(case, name) for name in ENGINES)),
        gradient=gradient, worst_gradient=worst, curve=max_abs_difference(*losses.values()), resume=max(resumed))


def max_abs_difference(a: Any, b: Any) -> float:
    """The largest absolute difference of two arrays."""
    return float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))))


def run_steps(case: ParityCase, engine: Engine, state: State, first: int, last: int) -> tuple[State, list[float]]:
    """Takes the steps of batches ``first`` to ``last - 1``; the state after them and their losses."""
    losses = []
    for step in range(first, last):
        state, result = engine.step(state, case.batches[step], case.rates[step])
        losses.append(result.loss)
    return state, losses


def first_losses(case: ParityCase, name: str) -> list[float]:
    """Mean losses of a few batches, before any step."""
    engine = case.engine(name)
    state = case.initial_state(engine, case.request.optimizer)
    sums = [engine.evaluate(state, batch) for batch in case.batches[:COMPARED_BATCHES]]
    return [total.loss_sum / total.supervised_tokens for total in sums]


def trained_logits(case: ParityCase, name: str) -> np.ndarray:
    """``[N, V]`` logits at the positions that are not padding, of the full model after a few steps."""
    trained = case.folder / "trained"
    if not trained.exists():
        trained.mkdir()
        initializer = case.engine(case.initializer)
        state = case.initial_state(initializer, case.request.optimizer)
        initializer.export(run_steps(case, initializer, state, 0, COMPARED_BATCHES)[0], trained)
    engine, batch = case.engine(name, method=FULL), case.batches[0]
    if not isinstance(engine, ComparableEngine):
        raise RequestError(f"engine {name} cannot be compared", "an engine that returns logits (`ComparableEngine`)")
    return engine.logits(engine.load(trained), batch)[batch.segment_ids[0] != 0]


def gradients(case: ParityCase, name: str) -> dict[str, np.ndarray]:
    """Gradients of the first batch by tensor, up to a common factor: AdamW's first moment after the first step."""
    own = case.request.optimizer
    optimizer = own if own.name == "adamw" else AdamWConfig(name="adamw")
    engine = case.engine(name, optimizer=optimizer)
    # The learning rate does not affect the first moment.
    state, _ = engine.step(case.initial_state(engine, optimizer), case.batches[0], 1e-6)
    with tempfile.TemporaryDirectory(dir=case.folder) as temporary:
        engine.save(state, Path(temporary))
        file = TensorFile(Path(temporary) / "optimizer.safetensors")
        return {key.removeprefix("exp_avg."): np.array(file.read(key)) for key in file.names()
                if key.startswith("exp_avg.")}


def gradient_difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> tuple[float, str]:
    """Largest difference of an element, relative to the largest element of its tensor, and that tensor's name.

    Some gradients are zero except for rounding, see `GRADIENT_FLOOR`. A tensor of one side differs infinitely.
    """
    if only := sorted(a.keys() ^ b.keys()):
        return float("inf"), only[0]
    # Otherwise rounding would dominate tensors with almost zero gradients.
    floor = GRADIENT_FLOOR * max(float(np.abs(x).max()) for x in b.values())
    differences = {name: float(np.abs(x - b[name]).max()) / max(float(np.abs(b[name]).max()), floor)
                   for name, x in a.items()}
    worst = max(differences, key=differences.__getitem__)
    return differences[worst], worst
