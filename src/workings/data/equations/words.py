"""The words around and between numbers that tell an equation from other text, in lower case.

A word that may change a value makes an equation unread, because a false alarm is worse than a missed mistake.
"""

import re


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


CHANGES = {"hundred": ("scale", "100"), "thousand": ("scale", "1000"), "million": ("scale", "1000000"),
           "billion": ("scale", "1000000000"), "trillion": ("scale", "1000000000000"), "dozen": ("scale", "12"),
           "squared": ("power", "2"), "cubed": ("power", "3"), "percent": ("op", "%"),
           "cents": ("cents", "1/100"), "cent": ("cents", "1/100"), "¢": ("cents", "1/100")}
"""Words that change the number before them: kind and text of their tokens."""
PHRASES = {"is equal to": ("says", "="), "divided by": ("op", "/"), "multiplied by": ("op", "*"), "times": ("op", "*"),
           "plus": ("op", "+"), "minus": ("op", "-"), "of": ("op", "of"),
           **dict.fromkeys(("is", "equals", "makes", "gives"), ("says", "="))}
"""Phrases between two numbers that are an operation or an equals sign: kind and text of their tokens."""

NO_UNITS = _listed("""
    a after all also although am an and are as at be because been before bmod both but by can choose cubed did
    divided do does each equal equals every for from get gets gives half has have he her here his i if in into is
    it less makes minus mod modulo more multiplied must my no not now of off on one only or our over per plus pm
    pmod r rem remainder she since so squared subtract than that the their then there these they third thirds this
    those though times to twice two until using was we were what when where which while who will with would you
    your""")
"""Words that are not the unit of a number before them."""

CHANGES_WHAT_FOLLOWS = _listed("""
    abs add adding adds average by ceil cos decrease decreased divide divided dividing double doubled doubling exp
    f floor from gcd g h half halve halved halving increase increased lcm less ln log max mean min minus mod modulo
    more multiplied multiply multiplying negative over p per plus product quarter quotient raised root round sin
    sqrt square squaring subtract subtracted subtracting tan tenth than third thirds thrice times to triple tripled
    tripling twice with without and or of choose remainder between""")
"""Words before an expression that may belong to its value."""

MAY_COME_BEFORE = re.compile(
    r"(?:\b(?:total|sum|cost|costs|amount|price|profit|loss|income|salary|distance|weight|area|perimeter|volume|number|"
    r"result|answer|value|speed|age|score|time|length|difference|product|quotient|sale|pay|bill|fee|charge|balance|"
    r"count|average|rate|change|payment)s?\s+of|\b(?:comes?|came|amounts?|adds?\s+up|equal|equals|leads?|sums?)\s+to"
    r"|[,;.:]\s+(?:and|or)|=\s*\$?-?\d[\d,.]*%?(?:\s+[a-z]+)?\s+and)\s*$")
"""Ends of the text before an expression that have such a word and change nothing: `a total of 3 + 4`."""

NAMED_BY_NUMBER = re.compile(
    # One look-behind per word, because Python's `re` needs fixed widths.
    r"(?<!\beach )(?<!\bevery )(?<!\bper )(?<!\ba )(?<!\bone )\b(?:day|step|week|month|year|hour|minute|chapter|page|"
    r"grade|age|room|question|problem|item|exercise|number|no|table|figure|equation|case|part|round|level|stage|row|column|class|"
    r"team|player|group|box|section|lesson|version|line|task|example|option|unit|season|bus|gate|floor|apartment)s?\s+$")
"""Ends of the text before a number that is a name: `day 1 * 2`."""

BARE_MAY_FOLLOW = _listed("so thus then hence therefore is gives get gets have has that since because means")
"""Words after which a single number is a value: `so 5 = 4 + 1`, and not `Step 3 = 4 + 1`."""

UNITS_STUCK = _listed("""
    cm km mm dm kg mg ml kl ft in inch lb lbs oz hrs hr min mins sec secs mph kmh km/h m/s kw kwh mb gb usd eur""")
"""Units that may directly follow a number without a space; a single letter would be a variable."""

LETTERS_BEHIND = "aimgslhw"
"""Single letters that are a word or a unit after a number and a space; others are variables."""

_COMPOUND = r"[a-z]{1,12}\.?,?\s*(?:and\s+)?\d+(?:/\d+|\.\d+)?\s*[a-z]"
AFTER_THE_NUMBER = re.compile(
    rf"\s*(?:{_COMPOUND}|and\s+(?:a\b|an\b|one\b|two\b|three\b|half\b|\\|\(?\$?\d+\s*/)|or\s+[-$\d\\]|[ap]\.\s?m\b|to\s+\d|of\s+\d"
    r"|\(?\s*(?:mod|modulo|remainder|rem|base)\b|(?:more|less|fewer|greater)\s+than\b"
    r"|(?:halves|thirds|quarters|(?:four|fif|six|seven|eigh|nin|ten|hundred|thousand)ths)\b)", re.IGNORECASE)
"""Text after a number that continues its value: `5 feet 6 inches`, `2 and a half`, `3 or 1`."""

OTHER_ARITHMETIC = re.compile(
    r"\bmod\b|\bmodulo\b|\\[pb]?mod\b|≡|\\equiv|\bcongruent|\bclock\b|\bbinary\b|\boctal\b|\bhexadecimal\b|\bhex\b"
    r"|\bin base\b|\bbase[- ](?:\d|10|12|16|two|eight|ten|sixteen)\b(?=\s*[,:;.]|\s+(?:arithmetic|number|we|it))"
    r"|\bXOR\b|\bbitwise\b|\bfinite field\b|\bGF\(", re.IGNORECASE)
"""Signs of another arithmetic: in another base, by residues, by the clock."""

NOT_CLAIMED_BEFORE = re.compile(
    r"\b(?:suppose|supposing|assum\w+|imagine|pretend|wrong\w*|incorrect\w*|mistak\w+|error|errors|false\w*|contradict\w*|"
    r"instead of|rather than|thought|claim\w*|password|code|slogan|typo|won|lost \d|beat|counterexample|test whether|"
    r"whether|didn't|don't|doesn't|isn't|cannot|can't|never|nobody|do not|does not|did not|is not|are not|should not|"
    r"not equal|trick|joke)\b|\bif\s+(?:we\s+had\s+|it\s+were\s+)?\W{0,3}$|\bnot\s+\W{0,3}$|[✗✘❌]", re.IGNORECASE)
NOT_CLAIMED_AFTER = re.compile(
    r"\b(?:contradict\w*|impossible|false|wrong|incorrect|absurd|oops|wait|hmm|mistake|error|no solution|"
    r"not (?:true|right|correct|possible|equal|valid|what|the case|work)|isn't|doesn't|does not|is not|cannot|can't be|"
    r"didn't|won't|nonsense|never)\b|^\W{0,6}no\b|^[^.!\n]{0,60}\?|[✗✘❌≠]|\\neq?\b", re.IGNORECASE)
"""Words before and after an equation that its writer does not claim."""

ROUNDED = re.compile(
    r"\bround\w*|\bapprox\w*|\babout\b|\broughly\b|\bnearest\b|\bwhole\b|\bfull\b|\bremain\w*|\bleft ?over\b|\bleft\b"
    r"|\bfloor|\bceil|\bat (?:least|most)\b|\bcomplete\w*|\bestimat\w*|\binteger|\btruncat\w*|\bnearly\b|\balmost\b"
    r"|\bas many as\b|⌊|⌈|≈|~", re.IGNORECASE)
"""Words that allow a quotient without its fraction."""
