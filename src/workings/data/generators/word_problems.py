"""Stories that need two to four calculations, one after the other."""

from workings.data.generators.base import Draw, Kind, Problem

_NAMES = ("Ada", "Ben", "Chika", "Dana", "Emil", "Fatima", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena", "Mira",
          "Noor")
_THINGS = ("apples", "pencils", "stickers", "marbles", "books", "tickets", "shells", "stamps")


def _people(draw: Draw) -> tuple[str, str]:
    first = draw.choice(_NAMES)
    return first, draw.choice([name for name in _NAMES if name != first])


def boxes_given_away(draw: Draw) -> Problem:
    """Boxes of things, some given away, the rest shared."""
    name, other = _people(draw)
    # At most 11 of at least 12 things are given away, so something is always left.
    boxes, per_box, given_away = draw.integer(3, 12), draw.integer(4, 20), draw.integer(2, 11)
    thing = draw.choice(_THINGS)
    total = boxes * per_box
    return Problem(
        prompt=f"{name} has {boxes} boxes with {per_box} {thing} each and gives {given_away} {thing} to {other}. "
               f"How many {thing} does {name} have left?",
        steps=(f"In all boxes: {boxes}*{per_box}={total} {thing}.",
               f"Left: {total}-{given_away}={total - given_away} {thing}."),
        answer=str(total - given_away), key=("boxes", boxes, per_box, given_away), category="two_steps",
        difficulty="easy")


def twice_as_many(draw: Draw) -> Problem:
    """One person has a multiple of another's things; both together."""
    name, other = _people(draw)
    count, factor, bought = draw.integer(5, 40), draw.integer(2, 5), draw.integer(3, 30)
    thing = draw.choice(_THINGS)
    multiple = count * factor
    return Problem(
        prompt=f"{name} has {count} {thing}. {other} has {factor} times as many. Together they buy {bought} {thing} "
               f"more. How many {thing} do they have then?",
        steps=(f"{other} has {factor}*{count}={multiple} {thing}.", f"Together: {count}+{multiple}={count + multiple}.",
               f"Then: {count + multiple}+{bought}={count + multiple + bought}."),
        answer=str(count + multiple + bought), key=("multiple", count, factor, bought), category="three_steps",
        section="trace_sensitive")


def change_of_a_purchase(draw: Draw) -> Problem:
    """Two kinds of goods, paid with a note."""
    name = draw.choice(_NAMES)
    first, second = draw.integer(2, 9), draw.integer(2, 9)
    price_a, price_b = draw.integer(2, 12), draw.integer(2, 12)
    cost_a, cost_b = first * price_a, second * price_b
    total = cost_a + cost_b
    # The next multiple of 50 above the total, so there is always change.
    note = (total // 50 + 1) * 50
    return Problem(
        prompt=f"{name} buys {first} notebooks for ${price_a} each and {second} pens for ${price_b} each and pays with "
               f"${note}. How many dollars does {name} get back?",
        steps=(f"Notebooks: {first}*{price_a}={cost_a} dollars.", f"Pens: {second}*{price_b}={cost_b} dollars.",
               f"Together: {cost_a}+{cost_b}={total} dollars.", f"Back: {note}-{total}={note - total} dollars."),
        answer=str(note - total), key=("change", first, price_a, second, price_b), category="four_steps",
        section="trace_sensitive", difficulty="hard")


def shared_equally(draw: Draw) -> Problem:
    """A number of things shared so that none is left."""
    name = draw.choice(_NAMES)
    friends, share, eaten = draw.integer(2, 9), draw.integer(2, 15), draw.integer(1, 20)
    thing = draw.choice(_THINGS)
    # Made backwards from the answer, so the division leaves nothing over.
    rest = friends * share
    return Problem(
        prompt=f"{name} has {rest + eaten} {thing}, loses {eaten} and shares the others equally among {friends} "
               f"friends. How many {thing} does each friend get?",
        steps=(f"Not lost: {rest + eaten}-{eaten}={rest} {thing}.", f"Each friend: {rest}/{friends}={share} {thing}."),
        answer=str(share), key=("share", friends, share, eaten), category="two_steps", difficulty="easy")


def nothing_left(draw: Draw) -> Problem:
    """An edge case: everything is used up, or nobody takes anything."""
    name = draw.choice(_NAMES)
    rows, seats = draw.integer(3, 15), draw.integer(4, 20)
    # The two ends alone, which random numbers would hardly ever give.
    sitting = draw.choice((0, rows * seats))
    total = rows * seats
    return Problem(
        prompt=f"A hall has {rows} rows of {seats} seats. {name} counts {sitting} people sitting. How many "
               "seats are free?",
        steps=(f"Seats: {rows}*{seats}={total}.", f"Free: {total}-{sitting}={total - sitting}."),
        answer=str(total - sitting), key=("hall", rows, seats, sitting), category="two_steps", section="edge_case",
        difficulty="easy")


def asked_earnings(draw: Draw) -> Problem:
    """Hours at a wage, less what is spent."""
    name = draw.choice(_NAMES)
    # At least 32 dollars are earned and at most 30 spent.
    wage, first, second, spent = draw.integer(8, 25), draw.integer(2, 8), draw.integer(2, 8), draw.integer(5, 30)
    hours, pay = first + second, (first + second) * wage
    return Problem(
        prompt=f"{name} earns ${wage} an hour, works {first} hours on Monday and {second} hours on Tuesday, and spends "
               f"${spent}. How many dollars are left?",
        steps=(f"Hours: {first}+{second}={hours}.", f"Pay: {hours}*{wage}={pay} dollars.",
               f"Left: {pay}-{spent}={pay - spent} dollars."),
        answer=str(pay - spent), key=("earnings", wage, first, second, spent), category="three_steps",
        section="trace_sensitive")


def asked_garden(draw: Draw) -> Problem:
    """Trees in rows, some of which bear fruit."""
    # At least 12 trees, of which at most 8 are bare.
    rows, trees, bare, fruit = draw.integer(3, 9), draw.integer(4, 12), draw.integer(0, 8), draw.integer(10, 30)
    total = rows * trees
    bearing = total - bare
    return Problem(
        prompt=f"A garden has {rows} rows of {trees} trees. {bare} trees bear nothing, each of the others bears "
               f"{fruit} pears. How many pears are there?",
        steps=(f"Trees: {rows}*{trees}={total}.", f"Bearing: {total}-{bare}={bearing}.",
               f"Pears: {bearing}*{fruit}={bearing * fruit}."),
        answer=str(bearing * fruit), key=("garden", rows, trees, bare, fruit), category="three_steps",
        section="edge_case" if bare == 0 else "trace_sensitive", difficulty="hard")


def asked_pages(draw: Draw) -> Problem:
    """Days that are needed to read the rest of a book."""
    name = draw.choice(_NAMES)
    a_day, days, read = draw.integer(5, 30), draw.integer(3, 14), draw.integer(10, 90)
    # Built backwards, so that the division comes out even.
    rest = a_day * days
    return Problem(
        prompt=f"A book has {rest + read} pages. {name} has read {read} of them and now reads {a_day} pages a day. "
               f"How many days does the rest take?",
        steps=(f"Rest: {rest + read}-{read}={rest} pages.", f"Days: {rest}/{a_day}={days}."),
        answer=str(days), key=("pages", a_day, days, read), category="two_steps")


def asked_bus(draw: Draw) -> Problem:
    """An edge case: everybody leaves, or nobody gets on."""
    on, off, new = draw.integer(5, 40), draw.integer(1, 39), draw.integer(1, 30)
    # Everybody leaves, or nobody gets on; never do more leave than are there.
    off, new = (on, new) if draw.integer(0, 1) else (min(off, on), 0)
    rest = on - off
    return Problem(
        prompt=f"There are {on} people on a bus. {off} get off and {new} get on. How many people are on the bus?",
        steps=(f"Still on: {on}-{off}={rest}.", f"Then: {rest}+{new}={rest + new}."), answer=str(rest + new),
        key=("bus", on, off, new), category="two_steps", section="edge_case", difficulty="easy")


KIND = Kind(name="word_problems",
            trained=(boxes_given_away, twice_as_many, change_of_a_purchase, shared_equally, nothing_left),
            asked=(asked_earnings, asked_garden, asked_pages, asked_bus))
