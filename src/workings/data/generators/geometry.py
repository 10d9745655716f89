"""Areas, perimeters and volumes of simple figures with whole numbers."""

from workings.data.generators.base import Draw, Kind, Problem


def rectangle_area(draw: Draw) -> Problem:
    """Area of a rectangle."""
    a, b = draw.integer(2, 40), draw.integer(2, 25)
    return Problem(prompt=f"A rectangle is {a} cm long and {b} cm wide. What is its area in square centimeters?",
                   steps=(f"Area: {a}*{b}={a * b}.",), answer=str(a * b), key=("rectangle_area", *sorted((a, b))),
                   category="area", difficulty="easy", section="edge_case" if a == b else "core")


def rectangle_perimeter(draw: Draw) -> Problem:
    """Perimeter of a rectangle."""
    a, b = draw.integer(2, 90), draw.integer(2, 90)
    return Problem(prompt=f"A rectangle is {a} cm long and {b} cm wide. What is its perimeter in centimeters?",
                   steps=(f"Two sides: {a}+{b}={a + b}.", f"All sides: 2*{a + b}={2 * (a + b)}."),
                   answer=str(2 * (a + b)), key=("perimeter", *sorted((a, b))), category="perimeter",
                   section="edge_case" if a == b else "core")


def triangle_area(draw: Draw) -> Problem:
    """Area of a triangle from its base and height."""
    # An even base, because the area is to be a whole number.
    base, height = 2 * draw.integer(1, 20), draw.integer(2, 30)
    return Problem(prompt=f"A triangle has a base of {base} cm and a height of {height} cm. What is its area in square "
                          "centimeters?",
                   steps=(f"Base times height: {base}*{height}={base * height}.",
                          f"Half of that: {base * height}/2={base * height // 2}."),
                   answer=str(base * height // 2), key=("triangle_area", base, height), category="area")


def box_volume(draw: Draw) -> Problem:
    """Volume of a box."""
    a, b, c = draw.integer(2, 20), draw.integer(2, 15), draw.integer(2, 12)
    return Problem(prompt=f"A box is {a} cm long, {b} cm wide and {c} cm high. What is its volume in cubic "
                          "centimeters?",
                   steps=(f"Floor: {a}*{b}={a * b}.", f"Volume: {a * b}*{c}={a * b * c}."), answer=str(a * b * c),
                   key=("box", *sorted((a, b, c))), category="volume", section="trace_sensitive", difficulty="hard")


def asked_path(draw: Draw) -> Problem:
    """A rectangle without a smaller one in it."""
    a, b = draw.integer(8, 30), draw.integer(8, 30)
    # Smaller than any side of the lawn, so the pond always fits.
    c, d = draw.integer(2, 7), draw.integer(2, 7)
    return Problem(prompt=f"A lawn of {a} m by {b} m has a pond of {c} m by {d} m in it. How many square meters of "
                          "grass are there?",
                   steps=(f"Lawn: {a}*{b}={a * b}.", f"Pond: {c}*{d}={c * d}.",
                          f"Grass: {a * b}-{c * d}={a * b - c * d}."),
                   answer=str(a * b - c * d), key=("lawn", *sorted((a, b)), *sorted((c, d))), category="area",
                   section="trace_sensitive", difficulty="hard")


def asked_square(draw: Draw) -> Problem:
    """Area of a square from its perimeter."""
    side = draw.integer(2, 120)
    return Problem(prompt=f"The perimeter of a square is {4 * side} cm. What is its area in square centimeters?",
                   steps=(f"Side: {4 * side}/4={side}.", f"Area: {side}*{side}={side * side}."),
                   answer=str(side * side), key=("square", side), category="perimeter",
                   section="edge_case" if side % 10 == 0 else "core")


KIND = Kind(name="geometry", trained=(rectangle_area, rectangle_perimeter, triangle_area, box_volume),
            asked=(asked_path, asked_square))
