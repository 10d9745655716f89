"""Rewards given in Python: a module's function is named by its file, any other becomes a file in the run."""

import builtins
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

from workings.config.recipe_paths import with_changed_paths
from workings.errors import RequestError
from workings.record import atomic
from workings.record.redact import cleaned

Reward = str | Mapping[str, Any] | Callable[..., Any]
"""A shipped reward's name; a function; or an entry of the recipe's section `rewards`, whose `scorer` may be one."""
SIGNATURE = "def my_reward(prompts, completions, **columns):"
IN_A_FILE = '"FILE.py:FUNCTION", for a function in its own file'


def recipe_rewards(given: Reward | Sequence[Reward], config: Path, change: Callable[[str], str]
                   ) -> tuple[list[dict[str, Any]], list[str]]:
    """Rewards as the recipe's section `rewards` has them.

    A function of an imported module is named by that file. Functions of a notebook, or of the script that is running
    (which cannot be imported without training once more), are written into ``config``.

    Args:
        given: one reward or several.
        config: folder of the recipe.
        change: returns the new path for a relative one.

    Returns:
        The section, and names of the files that were written.

    Raises:
        RequestError: a function that its own file cannot hold.
    """
    several = [given] if isinstance(given, str | Mapping) or callable(given) else list(given)
    entries, written = list[dict[str, Any]](), list[str]()
    for reward in several:
        entry = dict(reward) if isinstance(reward, Mapping) else {"scorer": reward}
        if callable(scorer := entry.get("scorer")):
            function = _named_function(scorer)
            if file := _module_file(function):
                entry["scorer"] = f"{file}:{function.__name__}"
            else:
                source = _own_source(function)
                written.append(f"{function.__name__}.py")
                atomic.write_text(config / written[-1], source)
                entry["scorer"] = f"{written[-1]}:{function.__name__}"
        else:
            entry = with_changed_paths({"rewards": [entry]}, change)["rewards"][0]
        entries.append(entry)
    return entries, written


def _named_function(scorer: Callable[..., Any]) -> FunctionType:
    """The function itself. Raises `RequestError` for a lambda, a class or any other object that can be called."""
    name = getattr(scorer, "__name__", type(scorer).__name__)
    if isinstance(scorer, FunctionType) and name != "<lambda>":
        return scorer
    raise RequestError(f"rewards: {'a lambda has no name' if name == '<lambda>' else f'{name} is not a function'}",
                       f"a function that is defined by its name, or {IN_A_FILE}",
                       f"{SIGNATURE} return [...]; rewards=[my_reward]")


def _module_file(function: FunctionType) -> str:
    """The file of the imported module that has this function by its name; empty for any other function."""
    module = sys.modules.get(function.__module__ or "")
    file = getattr(module, "__file__", None) or ""
    # Importing the running script would train again.
    if function.__module__ == "__main__" or not file.endswith(".py"):
        return ""
    return str(Path(file).resolve()) if getattr(module, function.__name__, None) is function else ""


def _own_source(function: FunctionType) -> str:
    """The function's self-contained source. Raises `RequestError`."""
    name = function.__name__
    if function.__code__.co_freevars:
        _refuse_needs(name, function.__code__.co_freevars)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise RequestError(f"rewards: the source of {name} cannot be read",
                           f"a function of a file or of a notebook's cell, or {IN_A_FILE}",
                           f'rewards=["mine.py:{name}"]') from None
    namespace: dict[str, Any] = {"__name__": name}
    try:
        # As in the process that computes rewards: with nothing around it.
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), namespace)  # noqa: S102 - the caller's own function
    except NameError as error:
        _refuse_needs(name, [str(error.name)])
    needed = [used for used in dict.fromkeys(_global_names(function.__code__))
              if used not in namespace and not hasattr(builtins, used)]
    if needed:
        _refuse_needs(name, needed)
    if cleaned(source) != source:
        raise RequestError(f"rewards: the source of {name} holds a home folder or what looks like a token or password",
                           "a source without secrets, because the run keeps it", IN_A_FILE)
    return source


def _global_names(code: CodeType) -> Iterator[str]:
    """Names that a function, or one inside it, reads from outside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _refuse_needs(name: str, needed: Sequence[str]) -> NoReturn:
    raise RequestError(f"rewards: {name} uses {', '.join(needed)} from outside the function",
                       "a self-contained function: the run keeps its source and calls it in a process of "
                       "its own", f"import or define {', '.join(needed)} inside {name}; or {IN_A_FILE}")
