"""Memory of a compiled program, by the compiler's analysis."""

from importlib.metadata import version
from typing import Any

from workings.engines.base import Inspection
from workings.engines.framework_errors import first_line
from workings.engines.jax.target import refused_bytes


def inspection(compiled: Any) -> Inspection:
    """Bytes per device of a compiled step.

    The peak is the larger of the compiler's own peak and arguments + outputs + temporaries - aliased. Either can be the
    larger one, so both are in the breakdown.
    """
    stats = compiled.memory_analysis()
    breakdown = {
        "arguments": int(stats.argument_size_in_bytes), "outputs": int(stats.output_size_in_bytes),
        "temporaries": int(stats.temp_size_in_bytes), "aliased": int(stats.alias_size_in_bytes),
        "code": int(stats.generated_code_size_in_bytes),
        "compiler_peak": int(getattr(stats, "peak_memory_in_bytes", 0)),
    }
    # A donated argument and its output share memory and are in both numbers, so they are subtracted once.
    total = breakdown["arguments"] + breakdown["outputs"] + breakdown["temporaries"] - breakdown["aliased"]
    breakdown["sum"] = total
    return Inspection(peak_bytes=max(total, breakdown["compiler_peak"]), source="compiled", breakdown=breakdown,
                      versions={name: version(name) for name in ("jax", "jaxlib")})


def refusal(error: Exception) -> Inspection | None:
    """Memory that the compiler states when it refuses a program for lack of memory; None for another error.

    A TPU's compiler does that; its message has the bytes needed and the bytes available.
    """
    needed, limit = refused_bytes(str(error))
    if not needed:
        return None
    return Inspection(
        peak_bytes=needed, source="compiled", breakdown={"needed": needed},
        versions={name: version(name) for name in ("jax", "jaxlib")},
        refused=first_line(error), limit_bytes=limit)
