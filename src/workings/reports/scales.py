"""From values to places in a figure, with ticks at round numbers."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic scale from a domain of values to a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Pixel of a value, rounded to a tenth: more digits only make the file longer."""
        low, high, value = (math.log10(v) for v in (self.low, self.high, value)) if self.log else (
            self.low, self.high, value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """About ``count`` round values (1, 2 or 5 times a power of ten apart) within a domain."""
    if high <= low:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within a domain; only the powers where there are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    ticks = [factor * 10.0 ** power for power in powers for factor in factors]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def tick_label(value: float) -> str:
    """A tick's text: plain digits, thousands with a thin space, small numbers as they are."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.6g}"
