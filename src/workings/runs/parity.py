"""`parity`: do both engines compute the same from the same weights and batches?

In float32: logits, loss and gradients of single batches, the losses of a course of steps, and a course that one engine
begins and the other ends from its checkpoint. Nothing is compared through either engine's own eyes: weights travel as
safetensors, and gradients are read from the checkpoint of a first step of AdamW, whose first moment they are.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from workings.models.batch import Batch
from workings.models.registry import family_of
from workings.runs.resolve import resolve
from workings.runs.smoke import Smoke
from workings.training.schedule import Schedule

ENGINES = ("jax", "torch")
"""The two that are compared. The second one makes the weights and adapters that both begin with."""
TOLERANCES = {"logit": 1e-4, "loss": 1e-5, "gradient": 1e-4, "curve": 1e-4, "resume": 1e-4}
"""Largest differences that pass: logits and losses absolute, gradients relative (`gradient_difference`)."""
COMPARED = 3
"""Batches whose loss is compared."""
FLOOR = 1e-3
"""A tensor whose gradient is this small beside the largest one of all is measured against that one times this."""


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
        """Whether every difference is within its tolerance; what is not a number is not."""
        return all(getattr(self, name) <= limit for name, limit in TOLERANCES.items())

    def as_json(self) -> dict[str, Any]:
        """Keys of ``parity --json``."""
        values = {f"max_{name}_difference": getattr(self, name) for name in TOLERANCES}
        return {"passed": self.passed, **values, "tolerances": TOLERANCES, "worst_gradient": self.worst_gradient,
                "model": self.model, "steps": self.steps, "engines": list(ENGINES)}


@dataclass(frozen=True)
class Case:
    """What both engines are given."""

    request: EngineRequest
    batches: list[Batch]
    rates: list[float]
    weights: Path
    folder: Path
    """For what the engines write; what one of them makes for both is made once and lies there."""
    maker: str = ENGINES[1]
    """The engine that makes what both begin with."""
    _opened: list[tuple[str, EngineRequest, Engine]] = field(default_factory=list)

    def engine(self, name: str, **changes: Any) -> Engine:
        """One engine on this case; opened once for the same request, because opening may mean compiling."""
        request = replace(self.request, weights=self.weights, **changes)
        for other, asked, engine in self._opened:
            if (other, asked) == (name, request):
                return engine
        self._opened.append((name, request, find_engine(name).engine.open(request)))
        return self._opened[-1][2]

    def begin(self, engine: Engine, optimizer: OptimizerConfig) -> State:
        """A fresh state of an engine that was opened with this optimizer.

        Fresh adapters are random, and each engine has its own random numbers: both then begin with those of one, from
        its checkpoint before the first step.
        """
        if self.request.method.name == "full":
            return engine.load(self.weights)
        fresh = self.folder / f"fresh-{optimizer.name}"
        if not fresh.exists():
            fresh.mkdir()
            maker = self.engine(self.maker, optimizer=optimizer)
            maker.save(maker.load(self.weights), fresh)
        return engine.restore(fresh)


def parity(recipe: str | LoadedRecipe, overrides: Sequence[str] = (), *, own_model: bool = False,
           steps: int = 20) -> Parity:
    """Compare the engines on a recipe's model, data and optimizer, in float32.

    Args:
        recipe: a file, a shipped recipe's name, or one that is loaded already.
        overrides: ``key=value`` words; without one for ``device`` the comparison runs on the CPU.
        own_model: the recipe's own model instead of a small one of the same architecture.
        steps: of the course.

    Raises:
        RequestError: what was asked for is wrong, or one of the engines does not do it.
    """
    loaded = load_recipe(recipe, overrides)
    loaded = comparable(loaded, steps, on_cpu=not any(word.startswith("device=") for word in overrides))
    if not own_model:
        loaded = Smoke(steps=steps).shrink(loaded)
    with tempfile.TemporaryDirectory(prefix="workings-parity-") as folder:
        return compare(make_case(loaded, Path(folder), small=not own_model), loaded.recipe.name)


def comparable(loaded: LoadedRecipe, steps: int, *, on_cpu: bool, attention: str = "plain") -> LoadedRecipe:
    """The recipe in float32 on one device, with as many steps as are compared."""
    values = loaded.recipe.model_dump(mode="json", exclude_unset=True)
    # In a coarser format rounding alone would be larger than the tolerances.
    values["precision"] = {"parameters": "fp32", "compute": "fp32", "moments": "fp32"}
    # With one device no order of sums over devices is part of the comparison.
    values["mesh"] = {"fsdp": 1, "tp": 1}
    values["training"] |= {"steps": steps}
    # A recipe whose warmup does not end before its last step is refused, and few steps are compared.
    if values["training"].get("warmup_steps", 0) >= steps:
        values["training"]["warmup_steps"] = steps // 4
    # A kernel that only one of the engines has would be compared with another function of the other one.
    values["memory"] = values.get("memory", {}) | {"attention": attention}
    if on_cpu:
        values["device"] = "cpu"
    return replace(loaded, recipe=check_recipe(values, f"{loaded.origin} as compared"))


def make_case(loaded: LoadedRecipe, folder: Path, *, small: bool, maker: str = ENGINES[1]) -> Case:
    """Batches by the recipe's own rules, and weights on disk that both engines load."""
    resolved, recipe = resolve(loaded), loaded.recipe
    rows = build_rows(resolved.data.traces, resolved.tokenizer, resolved.template, recipe.data)
    shape, weights = resolved.shape, resolved.weights
    if small:
        shape = family_of(shape).in_reach(shape)
    batches = Batches(rows, seed=recipe.seed, rows_per_micro_batch=recipe.batch.micro_batch,
                      accumulation=recipe.batch.accumulation, data_config=recipe.data)
    # Made once and kept: both engines must be given the very same arrays.
    chosen, position = [], Position()
    for _ in range(recipe.training.steps):
        batch, position = batches.at(position)
        chosen.append(batch)
    schedule = Schedule.of(recipe.training)
    request = EngineRequest.of(recipe, shape)
    start = folder / "start"
    if weights.directory is None and not start.exists():
        start.mkdir()
        # One engine draws the weights of both, because each has random numbers of its own.
        engine = find_engine(maker).engine.open(replace(request, method=FULL))
        engine.export(engine.init(recipe.seed), start)
    return Case(request=request, batches=chosen, weights=weights.directory or start, folder=folder, maker=maker,
                # A schedule counts steps from 1.
                rates=[schedule.at(step + 1) for step in range(recipe.training.steps)])


def compare(case: Case, name: str) -> Parity:
    """All comparisons of one case."""
    curves, states, folder, optimizer = {}, {}, case.folder, case.request.optimizer
    half = len(case.batches) // 2
    for engine in ENGINES:
        opened = case.engine(engine)
        state, first = course(case, opened, case.begin(opened, optimizer), 0, half)
        states[engine] = folder / f"half-{engine}"
        states[engine].mkdir()
        opened.save(state, states[engine])
        # Goes on from the live state, the other engine from the file: an error of saving shows as a difference.
        _, second = course(case, opened, state, half, len(case.batches))
        curves[engine] = first + second
    resumed = []
    # In both directions: each engine restores what the other one saved.
    for one, other in (ENGINES, ENGINES[::-1]):
        opened = case.engine(other)
        _, losses = course(case, opened, opened.restore(states[one]), half, len(case.batches))
        resumed.append(largest(losses, curves[one][half:]))
    gradient, worst = gradient_difference(*(gradients(case, engine) for engine in ENGINES))
    return Parity(
        model=f"{name}: {case.request.shape.family}, {case.request.method.name}, {case.request.optimizer.name}",
        steps=len(case.batches), logit=largest(*(trained_logits(case, engine) for engine in ENGINES)),
        loss=largest(*(first_losses(case, engine) for engine in ENGINES)), gradient=gradient, worst_gradient=worst,
        curve=largest(*curves.values()), resume=max(resumed))


def largest(a: Any, b: Any) -> float:
    """The largest absolute difference of two arrays."""
    return float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))))


def course(case: Case, engine: Engine, state: State, first: int, last: int) -> tuple[State, list[float]]:
    """The state after the batches from one to before another, and their losses."""
    losses = []
    for step in range(first, last):
        state, result = engine.step(state, case.batches[step], case.rates[step])
        losses.append(result.loss)
    return state, losses


def first_losses(case: Case, name: str) -> list[float]:
    """Mean losses of a few batches, before any step."""
    engine = case.engine(name)
    state = case.begin(engine, case.request.optimizer)
    sums = [engine.evaluate(state, batch) for batch in case.batches[:COMPARED]]
    return [total.loss_sum / total.supervised_tokens for total in sums]


def trained_logits(case: Case, name: str) -> np.ndarray:
    """``[N, V]`` logits at the positions that are not padding, after the steps of a short course of `Case.maker`.

    After some steps adapters and biases are no longer zero; the trained model is exported and opened as a full one.
    """
    trained = case.folder / "trained"
    if not trained.exists():
        trained.mkdir()
        maker = case.engine(case.maker)
        maker.export(course(case, maker, case.begin(maker, case.request.optimizer), 0, COMPARED)[0], trained)
    engine, batch = case.engine(name, method=FULL), case.batches[0]
    if not isinstance(engine, ComparableEngine):
        raise RequestError(f"parity with engine {name}", "an engine that says its logits (`ComparableEngine`)")
    # Segment 0 is padding: engines may compute there what they like, because nothing reads it.
    return engine.logits(engine.load(trained), batch)[batch.segment_ids[0] != 0]


def gradients(case: Case, name: str) -> dict[str, np.ndarray]:
    """Gradients of the first batch by tensor, up to a common factor: AdamW's first moment after the first step."""
    own = case.request.optimizer
    optimizer = own if own.name == "adamw" else AdamWConfig(name="adamw")
    engine = case.engine(name, optimizer=optimizer)
    # The rate moves the weights and not the first moment, so any small one will do.
    state, _ = engine.step(case.begin(engine, optimizer), case.batches[0], 1e-6)
    with tempfile.TemporaryDirectory(dir=case.folder) as place:
        engine.save(state, Path(place))
        file = TensorFile(Path(place) / "optimizer.safetensors")
        return {key.removeprefix("exp_avg."): np.array(file.read(key)) for key in file.names()
                if key.startswith("exp_avg.")}


def gradient_difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> tuple[float, str]:
    """Largest difference of an element, relative to the largest element of its tensor, and that tensor's name.

    Some gradients are zero but for rounding (a key's bias shifts all scores alike); see `FLOOR`. Tensors that only one
    side has count as infinitely different.
    """
    only = sorted(a.keys() ^ b.keys())
    if only:
        return float("inf"), only[0]
    floor = FLOOR * max(float(np.abs(x).max()) for x in b.values())
    differences = {name: float(np.abs(x - b[name]).max()) / max(float(np.abs(b[name]).max()), floor)
                   for name, x in a.items()}
    worst = max(differences, key=lambda name: differences[name])
    return differences[worst], worst
