"""Executables of the JAX engine, kept: a process that asks for a program which another one had compiled loads it.

JAX keeps what XLA compiles, but every process traces and lowers each program again, which takes far longer than
to load the executable. Here an executable has a name that everything it follows from is part of: the engine's
request, its devices, the function with what it closes over, the shapes of its arguments, the source of engine, models
and objectives, versions of libraries, XLA's options. What has no such name is traced as ever: programs of families,
objectives and optimizers of other packages, of several processes, and those that hold constants.

Nothing is kept of what a process compiles for machines that are not here: tests of planning call those compilers.
"""

import importlib.metadata
import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from hashlib import sha256
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from tests import kept_folders
from workings.config.families import FAMILIES
from workings.engines.hardware_probe import cpu_features
from workings.engines.source_digest import source_digest
from workings.record.atomic import write_bytes
from workings.record.digest import json_digest

ROOT = Path(__file__).resolve().parent.parent
ENGINE = "workings.engines.jax.engine"
WITH_JIT = ("engine", "generate", "streaming")
"""Modules of the engine that jit programs."""
MAX_LOADED = 48
"""Executables that a process holds; one takes up to some megabytes."""
_loaded: dict[str, Any] = {}


class NoName(Exception):
    """A program follows from something that cannot be written down here."""


def keep() -> None:
    """From now on the JAX engine of this process, and of those forked from it, asks for kept executables first."""
    engine: Any = sys.modules.get(ENGINE)
    if engine is None or hasattr(engine.build_spec, "__wrapped__"):
        return
    engine.build_spec = _named(engine.build_spec)
    engine.lower_step = _kept_step(engine.lower_step)
    for name in WITH_JIT:
        sys.modules[f"workings.engines.jax.{name}"].jax = _JaxThatKeeps()  # type: ignore[attr-defined]


@cache
def folder() -> Path:
    """Of this source, these versions and this processor."""
    source = source_digest("workings.engines.jax", "workings.models", "workings.objectives", beside="workings.engines")
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")]
    return kept_folders.of_newest(ROOT / "build" / "executables",
                                  json_digest([source, versions, sys.version, cpu_features()]))


def _named(build_spec: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(build_spec)
    def build(request: Any, layout: Any, platform: str) -> Any:
        spec = build_spec(request, layout, platform)
        import jax

        ours = (request.shape.family in FAMILIES and request.shape.verified and all(
            type(part).__module__.startswith("workings.") for part in (request.objective, request.optimizer)))
        if platform == "cpu" and ours and jax.process_count() == 1:
            devices = [device.id for device in layout.mesh.devices.flat]
            settings = [jax.config.jax_enable_x64, str(jax.config.jax_default_matmul_precision),
                        str(jax.config.jax_threefry_partitionable), os.environ.get("XLA_FLAGS", "")]
            name = [request.to_json(), dict(layout.mesh.shape), devices, jax.device_count(), settings]
            object.__setattr__(spec, "kept_under", json.dumps(name, sort_keys=True, default=str))
        return spec
    return build


def _kept_step(lower_step: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(lower_step)
    def lower(spec: Any, abstract: Any, shardings: Any, shape: tuple[int, ...], more: Mapping[str, Any]) -> Any:
        sizes = [list(shape), {key: [list(x.shape), str(x.dtype)] for key, x in more.items()}]
        return _Lowered(partial(_named_by, "step", spec, sizes), spec,
                        lambda: lower_step(spec, abstract, shardings, shape, more))
    return lower


def _named_by(*parts: Any) -> str:
    return sha256(json.dumps([_name(part) for part in parts], sort_keys=True).encode()).hexdigest()


def _name(x: Any) -> Any:
    """JSON values of something that a program follows from."""
    if x is None or isinstance(x, str | int | float | bool):
        return x
    if isinstance(x, tuple | list):
        return [_name(each) for each in x]
    if isinstance(x, dict):
        return {str(key): _name(each) for key, each in x.items()}
    if isinstance(x, partial):
        return ["partial", _name(x.func), _name(x.args), _name(x.keywords)]
    if isinstance(x, MethodType):
        return ["method", x.__qualname__, _name(x.__self__)]
    if isinstance(x, FunctionType) and x.__module__.startswith("workings."):
        cells = [_name(cell.cell_contents) for cell in x.__closure__ or ()]
        return ["function", x.__module__, x.__qualname__, cells, _name(x.__defaults__), _name(x.__kwdefaults__)]
    if getattr(x, "__module__", "").startswith("jax.numpy") or getattr(x, "__module__", "").startswith("jax._src"):
        if callable(x) and hasattr(x, "__qualname__"):
            return ["jax", x.__module__, x.__qualname__]
        if type(x).__name__ == "NamedSharding":
            return str(x)
    if kept_under := getattr(x, "kept_under", ""):
        return kept_under
    raise NoName(repr(x))


def _spec_of(x: Any) -> Any:
    """The spec that a function closes over or belongs to."""
    if hasattr(x, "kept_under"):
        return x
    inside = (x.func, *x.args) if isinstance(x, partial) else (x.__self__,) if isinstance(x, MethodType) else tuple(
        cell.cell_contents for cell in getattr(x, "__closure__", None) or ())
    return next((spec for each in inside if (spec := _spec_of(each)) is not None), None)


class _JaxThatKeeps:
    """Stands for `jax` in a module of the engine; its `jit` keeps executables."""

    def __getattr__(self, name: str) -> Any:
        import jax

        return getattr(jax, name)

    def jit(self, function: Any, **options: Any) -> Any:
        """`jax.jit`, with a program for each set of shapes that may come from another process."""
        import jax

        jitted = jax.jit(function, **options)
        return jitted if (spec := _spec_of(function)) is None else _Jitted(function, spec, jitted, options)


class _Jitted:
    def __init__(self, function: Any, spec: Any, jitted: Any, options: dict[str, Any]) -> None:
        self.jitted, self.spec = jitted, spec
        self.name = partial(_named_by, function, {key: _name_of_option(each) for key, each in options.items()})
        self.programs: dict[Any, Any] = {}

    def lower(self, *shapes: Any) -> Any:
        return _Lowered(lambda: sha256((self.name() + str(_sizes(shapes))).encode()).hexdigest(), self.spec,
                        lambda: self.jitted.lower(*shapes))

    def __call__(self, *arguments: Any) -> Any:
        sizes = _sizes(arguments)
        if sizes not in self.programs:
            self.programs[sizes] = self.lower(*arguments).compile()
        return self.programs[sizes](*arguments)


def _name_of_option(option: Any) -> Any:
    import jax

    return [str(leaf) for leaf in jax.tree.leaves(option)] + [str(jax.tree.structure(option))]


def _sizes(arguments: Any) -> Any:
    import jax

    leaves, tree = jax.tree.flatten(arguments)
    return tree, tuple((type(x) if not hasattr(x, "dtype") else (x.shape, str(x.dtype), getattr(x, "weak_type", False)),
                        str(getattr(x, "sharding", ""))) for x in leaves)


class _Lowered:
    """What `jax.stages.Lowered` is to the engine: something to compile."""

    def __init__(self, name: Callable[[], str], spec: Any, lower: Callable[[], Any]) -> None:
        self.name, self.spec, self.lower = name, spec, lower

    def compile(self) -> Any:
        """The executable, loaded where one is kept under its name."""
        from jax.experimental import serialize_executable

        try:
            name = self.name()
        except NoName:
            return self.lower().compile()
        if name in _loaded:
            return _loaded[name]
        path = folder() / name
        if path.exists():
            executable = serialize_executable.deserialize_and_load(
                *pickle.loads(path.read_bytes()), execution_devices=tuple(self.spec.layout.mesh.devices.flat))
        else:
            lowered = self.lower()
            with _Origin() as origin:
                executable = lowered.compile()
            if (written := _written_out(executable, origin)) is None:
                return executable
            write_bytes(path, pickle.dumps(written))
        _loaded[name] = executable
        while len(_loaded) > MAX_LOADED:
            _loaded.pop(next(iter(_loaded)))
        return executable


class _Origin:
    """Where the executables come from that are made while this is entered."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        """What JAX's compilation cache had of them."""
        self.compiled = 0

    def __enter__(self) -> "_Origin":
        from jax._src import compilation_cache, compiler

        self.before = compilation_cache.extract_executable_and_time, compiler.backend_compile_and_load
        extract, compile_and_load = self.before

        def read(both: bytes) -> Any:
            executable, seconds = extract(both)
            self.read.append(executable)
            return executable, seconds

        def compiled(*what: Any, **more: Any) -> Any:
            self.compiled += 1
            return compile_and_load(*what, **more)

        compilation_cache.extract_executable_and_time, compiler.backend_compile_and_load = read, compiled
        return self

    def __exit__(self, *error: object) -> None:
        from jax._src import compilation_cache, compiler

        compilation_cache.extract_executable_and_time, compiler.backend_compile_and_load = self.before


def _written_out(executable: Any, origin: _Origin) -> Any:
    """The executable as it can be loaded elsewhere; None where that is not possible.

    XLA leaves out functions of an executable that it has loaded itself, so what was read is written, and an executable
    that JAX had in memory, about which nobody knows where it came from, is not.
    """
    from jax.experimental import serialize_executable

    if len(origin.read) + origin.compiled != 1:
        return None

    class Pickler(serialize_executable._JaxPjrtPickler):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> Any:
            name = super().persistent_id(part)
            return ("exec", origin.read[0]) if name and name[0] == "exec" and origin.read else name

    pickler, serialize_executable._JaxPjrtPickler = serialize_executable._JaxPjrtPickler, Pickler
    try:
        return serialize_executable.serialize(executable)
    except NotImplementedError:  # it holds constants
        return None
    finally:
        serialize_executable._JaxPjrtPickler = pickler
