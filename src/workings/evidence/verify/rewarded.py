"""Levels 1 and 2: of a run that drew what it learned from, every prompt, seed, batch, reward and advantage follows.

No weights are needed: what was drawn stands in the record, and all that was made of it is made again.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError, RequestError, RewardError
from workings.evidence.verify.checks import check, each_run, failed, judged, not_checked
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.record.digest import json_digest
from workings.record.layout import DATA_DIGESTS, PROMPTS, REWARDS, ROLLOUTS, TOKENIZER, rollout_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workings.config.algorithms import DrawingAlgorithm
    from workings.config.recipe import Recipe
    from workings.models.chat import ChatTemplate
    from workings.rollouts.prompts import PromptSet
    from workings.rollouts.rollout import Group, Rollout, RolloutShape
    from workings.scoring.rewards import RewardSettings

CLOSE = 1e-6
"""Relative difference that a mean in the log may have from the one that is computed again."""


@dataclass(frozen=True, kw_only=True)
class _Learned:
    """What a run learned from, read once for all checks."""

    recipe: "Recipe"
    algorithm: "DrawingAlgorithm"
    prompts: "PromptSet"
    shape: "RolloutShape"
    settings: "RewardSettings | None"
    """None where completions had no rewards."""
    rollouts: "list[Rollout]"

    @property
    def reward_names(self) -> tuple[str, ...]:
        """Names of the rewards in their order."""
        return () if self.settings is None else self.settings.names


def draws(unit: Unit) -> bool:
    """Whether a run says that it drew what it learned from: its algorithm has completions of each prompt."""
    algorithm = unit.manifest.config_snapshot.get("algorithm")
    return isinstance(algorithm, dict) and "group" in algorithm


def has_rewards(unit: Unit) -> bool:
    """Whether such a run had rewards, and not a teacher."""
    return draws(unit) and unit.manifest.config_snapshot["algorithm"].get("name") != "distill"


@check("consistency.prompts", level=1, title="prompts and rewards are those that the manifest names",
       example="a reward of another weight than the recipe gives it")
def prompts(record: Record) -> Iterator[CheckFinding]:
    """Their digests; the rewards are those of the recipe, with their weights and limits."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        from workings.data.rows import prompt_digest
        learned = _learned(unit)
        said = unit.manifest.data_digests
        problems = []
        if said.get("prompts") != learned.prompts.digest:
            problems.append(f"{PROMPTS} has digest {learned.prompts.digest[:16]}…, the manifest "
                            f"{str(said.get('prompts'))[:16]}…")
        # By these digests questions are found that are also measured with; another one would hide such a question.
        problems += [f"{shown(row['id'])}: its prompt_digest is not that of its prompt" for row in unit.lines(PROMPTS)
                     if row["status"] == "kept" and row["prompt_digest"] != prompt_digest(row["item"]["prompt"])]
        if learned.settings is not None:
            problems += _reward_problems(unit.json(REWARDS), learned.settings, said.get("rewards"))
        if unit.has(DATA_DIGESTS) and unit.json(DATA_DIGESTS) != said:
            problems.append(f"{DATA_DIGESTS} differs from the manifest")
        yield judged(problems, f"{len(learned.prompts.prompts):,} prompts; rewards: "
                               + (", ".join(learned.reward_names) or "none"), unit)
    return _each(record, find)


@check("consistency.rollouts", level=1, title="what was drawn is what seed and prompts imply: prompts, seeds, groups",
       example="two prompts exchanged, or the seed of one completion changed")
def rollouts(record: Record) -> Iterator[CheckFinding]:
    """One rollout before every first update; prompts in order; a seed for each sample; groups chosen by the rule."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        learned = _learned(unit)
        problems = _step_problems(unit, learned)
        position: Any = None
        for rollout in learned.rollouts:
            # The first rollout begins at the default position: epoch 0, prompt 0.
            if not problems and rollout.position != (position or type(rollout.position)()):
                problems.append(f"rollout of step {rollout.step}: its prompts begin elsewhere than the last one ended")
            problems += _drawn_problems(learned, rollout)
            position = rollout.after
        samples = sum(len(group.samples) for rollout in learned.rollouts for group in rollout.groups)
        yield judged(problems, f"{len(learned.rollouts)} rollouts, {samples:,} completions of seed "
                               f"{unit.manifest.seed}", unit)
    return _each(record, find)


@check("consistency.rollout_batches", level=1, title="every update learned from the rollout that is recorded",
       example="the log probability of a token, changed")
def batches(record: Record) -> Iterator[CheckFinding]:
    """The batch of each step made again from tokens, advantages and log probabilities: digest and counts."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        from workings.rollouts.rollout import batch_of, digest_of
        learned = _learned(unit)
        by_step = {rollout.step: rollout for rollout in learned.rollouts}
        problems = []
        for line in unit.steps:
            part = (line.step - 1) % learned.shape.updates
            rollout = by_step.get(line.step - part)
            if rollout is None:
                problems.append(f"step {line.step}: no rollout")
                continue
            batch = batch_of(rollout, part, learned.shape, learned.algorithm)
            made = (digest_of(batch), batch.real_tokens, batch.supervised_tokens)
            if made != (line.batch_digest, line.tokens, line.supervised_tokens):
                problems.append(f"step {line.step}: another batch than its rollout implies")
        yield judged(problems, f"{len(unit.steps)} batches", unit)
    return _each(record, find)


@check("consistency.rollout_metrics", level=1, title="the log says of the rollouts what they are",
       example="a better mean reward in the log than the rollouts have")
def metrics(record: Record) -> Iterator[CheckFinding]:
    """Rewards, groups, lengths, ends, the divergence from a teacher, and how far sampler and trainer disagree."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        from workings.rollouts.arithmetic import mismatch, rollout_metrics
        learned = _learned(unit)
        problems, count = [], 0
        lines = {row["step"]: row for row in unit.metrics}
        for rollout in learned.rollouts:
            line = lines.get(rollout.step)
            if line is None:  # the step was not completed
                continue
            for name, value in (rollout_metrics(rollout, learned.reward_names) | mismatch(rollout)).items():
                count += 1
                said = line.get(name)
                if not isinstance(said, int | float) or not math.isclose(said, value, rel_tol=CLOSE, abs_tol=1e-9):
                    problems.append(f"step {rollout.step}: {name} is {str(said)[:20]}, the rollout gives {value:g}")
        problems += _held_out_problems(unit)
        yield judged(problems, f"{count:,} numbers of {len(learned.rollouts)} rollouts", unit)
    return _each(record, find)


@check("recompute.prompts", level=2, title="prompts are the chat template's tokens, and completions end as they say",
       example="a completion that ended by itself, said to be cut off")
def prompt_tokens(record: Record) -> Iterator[CheckFinding]:
    """Tokens against the record's tokenizer; a completion ends with a stop token or at the limit and nowhere else."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        learned, template = _learned(unit), _template(unit)
        problems = [f"prompt {prompt.item.id[:60]!r}: other tokens than its question gives"
                    for prompt in learned.prompts.prompts
                    if tuple(template.prompt_ids(prompt.item.prompt)) != prompt.tokens]
        limit, stops = learned.algorithm.max_new_tokens, set(template.stop_ids)
        for rollout in learned.rollouts:
            for _, sample in rollout.drawn:
                completion = sample.completion
                cut = completion.stop_token is None and len(completion.tokens) == limit
                # The stop token is one of the new tokens, so that at most one less than the limit stand before it.
                ended = completion.stop_token in stops and len(completion.tokens) < limit
                if not (cut or ended) or stops & set(completion.tokens):
                    problems.append(f"rollout of step {rollout.step}: a completion of {len(completion.tokens)} tokens "
                                    "that neither ended nor was cut off")
        yield judged(problems, f"{len(learned.prompts.prompts):,} prompts", unit)
    return _each(record, find)


@check("recompute.rewards", level=2, title="every completion, rewarded again, gets the recorded rewards",
       example="a reward flipped, and advantages and log made again to match it")
def rewards(record: Record) -> Iterator[CheckFinding]:
    """Rewards of each completion against this project's, in a process with limits. A person's function is not run."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        learned, template = _learned(unit), _template(unit)
        unlike = _library_unlike(unit.json(REWARDS), _settings(learned))
        try:
            problems, count, own = _rewarded_again(learned, template, without={"math"} if unlike else set())
        except (RequestError, RewardError) as error:
            yield failed(f"cannot be rewarded again: {error}", unit)
            return
        if problems or count:
            yield judged(problems, f"{count:,} rewards, each the recorded one", unit)
        if own:
            yield not_checked(f"the reward {', '.join(own)} is code from elsewhere, which is not run; its values are "
                              "as recorded", unit)
        if unlike:
            yield not_checked(unlike, unit)
    return _each(record, find, has_rewards)


@check("recompute.advantages", level=2, title="every advantage follows from the rewards of its group",
       example="one advantage, moved")
def advantages(record: Record) -> Iterator[CheckFinding]:
    """Sums of weights times values, and the algorithm's advantages of each group; equal to the bit."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        from workings.scoring.rewards import total
        learned = _learned(unit)
        settings = _settings(learned)
        problems, count = [], 0
        for rollout in learned.rollouts:
            for group in rollout.groups:
                count += len(group.samples)
                sums = [total(sample.rewards, settings) for sample in group.samples]
                if sums != [sample.reward for sample in group.samples]:
                    problems.append(_place(rollout, group) + ": its rewards do not add up")
                # Equal and not near: sums are `fsum`'s, which no order of adding changes.
                elif learned.algorithm.advantages(sums) != [each.advantage for each in group.samples]:
                    problems.append(_place(rollout, group) + ": other advantages than its rewards give")
        yield judged(problems, f"{count:,} advantages of {learned.recipe.algorithm.name}", unit)
    return _each(record, find, has_rewards)


def _settings(learned: _Learned) -> "RewardSettings":
    if learned.settings is None:
        raise RecordError("its algorithm has rewards by name, its recipe has none")
    return learned.settings


def _place(rollout: "Rollout", group: "Group") -> str:
    return f"rollout of step {rollout.step}, {group.prompt.item.id[:60]!r}"


def _each(record: Record, find: Any, wanted: Callable[[Unit], bool] = draws) -> Iterator[CheckFinding]:
    def of_rollouts(unit: Unit) -> Iterator[CheckFinding]:
        if wanted(unit):
            yield from find(unit)

    return each_run(record, of_rollouts)


def _learned(unit: Unit) -> _Learned:
    return unit.once("learned from", lambda: _read(unit))


def _read(unit: Unit) -> _Learned:
    # Imported here and in the checks: other records need none of it and should not wait.
    from workings.config.algorithms import DrawingAlgorithm
    from workings.config.load import check_recipe
    from workings.rollouts.lines import TOKEN_BYTES, from_json
    from workings.rollouts.prompts import read_prompts
    from workings.rollouts.rollout import RolloutShape
    from workings.scoring.rewards import RewardSettings

    try:
        recipe = check_recipe(unit.manifest.config_snapshot, unit.title)
        algorithm = recipe.algorithm
        if not isinstance(algorithm, DrawingAlgorithm):
            raise RecordError("its recipe draws nothing to learn from")
        settings = RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning,
                                  max_new_tokens=algorithm.max_new_tokens,
                                  steps_version=_steps_version(unit),
                                  extraction_version=_extraction_version(unit)) if recipe.learns_from_rewards else None
    except RequestError as error:
        raise RecordError(f"config_snapshot cannot be read: {error.given[:120]}") from None
    fsdp = unit.manifest.mesh.get("fsdp", 1)
    rows = recipe.batch.micro_batch * fsdp
    if rows * recipe.batch.accumulation != unit.manifest.global_batch:
        raise RecordError(f"{rows} rows x {recipe.batch.accumulation} is not the manifest's global batch of "
                          f"{unit.manifest.global_batch}")
    found = read_prompts(unit.lines(PROMPTS), unit.manifest.seed)
    by_id = {prompt.item.id: prompt for prompt in found.prompts}
    # By length first: a step of more digits than the name pads to comes after all that have fewer.
    names = sorted((name for name in unit.files if name.startswith(f"{ROLLOUTS}/")), key=lambda name: (len(name), name))
    drawn, rewarded = [], set() if settings is None else {*settings.names}
    for name in names:
        values = unit.json(name)
        if not isinstance(values, dict) or type(values.get("step")) is not int or name != rollout_file(values["step"]):
            raise RecordError(f"{unit.full(name)}: not the rollout of the step in its name")
        rollout = from_json(values, by_id)
        # As integers tokens take far more memory than in their file, so what a record may hold in memory is charged for
        # them.
        unit.tree.kept.spend(TOKEN_BYTES * sum(len(sample.completion.tokens) for _, sample in rollout.drawn))
        if any(set(sample.rewards) != rewarded for _, sample in rollout.drawn):
            raise RecordError(f"{unit.full(name)}: other rewards than the recipe's")
        drawn.append(rollout)
    # Padding is in no digest, so that its id need not be known.
    return _Learned(recipe=recipe, algorithm=algorithm, prompts=found,
                    shape=RolloutShape.of(recipe, algorithm, fsdp=fsdp, pad_id=0), settings=settings, rollouts=drawn)


def _steps_version(unit: Unit) -> int:
    """The version by which the record's rewards judged equations; this one's where it names none that is known."""
    from workings.scoring.judge import STEP_CHECKERS
    from workings.scoring.steps import STEPS_VERSION
    recorded = unit.json(REWARDS)
    versions = {entry.get("version") for entry in recorded if isinstance(entry, dict) and entry.get("name") == "steps"
                } if isinstance(recorded, list) else set()
    return next((version for version in STEP_CHECKERS if versions == {str(version)}), STEPS_VERSION)


def _extraction_version(unit: Unit) -> int:
    """The version by which the record's rewards found answers; this one's where it names none that is known."""
    from workings.answers.extract import EXTRACTION_VERSION, KNOWN_VERSIONS
    recorded = unit.json(REWARDS)
    parameters = [entry.get("parameters") for entry in recorded if isinstance(entry, dict)
                  ] if isinstance(recorded, list) else []
    named = {entry["extraction_version"] for entry in parameters
             if isinstance(entry, dict) and type(entry.get("extraction_version")) is int}
    return next((version for version in KNOWN_VERSIONS if named == {version}), EXTRACTION_VERSION)


def _reward_problems(recorded: Any, settings: "RewardSettings", said: str | None) -> list[str]:
    """What `config/rewards.json` says against the manifest, the recipe and this version's rewards."""
    from workings.config.rewards import FileReward
    problems = []
    if said != json_digest(recorded):
        problems.append(f"{REWARDS} has digest {json_digest(recorded)[:16]}…, the manifest {str(said)[:16]}…")
    if not isinstance(recorded, list) or len(recorded) != len(settings.rewards):
        return [*problems, f"{REWARDS} does not name the recipe's rewards"]
    for entry, reward, name in zip(recorded, settings.rewards, settings.names, strict=True):
        if not isinstance(entry, dict) or (entry.get("name"), entry.get("weight")) != (name, reward.weight):
            problems.append(f"{REWARDS}: another reward or weight than the recipe's {name}")
        # Of `math` the version names libraries, which may be others here or missing.
        elif not isinstance(reward, FileReward) and (
                {**entry, "version": ""} != settings.entry(reward, version="")
                or (name != "math" and entry.get("version") != settings.version(reward))):
            problems.append(f"{REWARDS}: {name} is not what the recipe and this version make of it")
    return problems


def _library_unlike(recorded: Any, settings: "RewardSettings") -> str:
    """Why the reward `math` cannot be computed again here: its library is missing, or another one; else empty."""
    reward = next((each for each in settings.rewards if each.scorer == "math"), None)
    if reward is None:
        return ""
    said = next((entry.get("version") for entry in recorded if isinstance(entry, dict) and entry.get("name") == "math"),
                "") if isinstance(recorded, list) else ""
    try:
        here = settings.version(reward)
    except RequestError as error:
        return f"{error.given}: {error.try_next}"
    return "" if said == here else f"reward 'math': version {str(said)[:100]!r} there, {here!r} here"


def _held_out_problems(unit: Unit) -> list[str]:
    """Scores of held-out items against the marks that they are the mean of."""
    return [f"step {row['step']}: held_out_score is {str(row.get('held_out_score'))[:20]}, its marks say otherwise"
            for row in unit.metrics if "held_out_right" in row and (
                not (marks := str(row["held_out_right"])) or set(marks) - {"0", "1"}
                or row.get("held_out_items") != len(marks)
                # Equal and not near: a quotient of two whole numbers is rounded in one way only.
                or row.get("held_out_score") != marks.count("1") / len(marks))]


def _step_problems(unit: Unit, learned: _Learned) -> list[str]:
    """The rollouts' steps against the steps that were completed."""
    updates, done = learned.shape.updates, unit.manifest.completed_steps
    # Of several updates from one rollout the first one gives it its number.
    expected = list(range(1, done + 1, updates))
    steps = [rollout.step for rollout in learned.rollouts]
    # A run that failed may have drawn for a step that it could not complete.
    if steps == expected or (unit.manifest.status == "failed" and steps == [*expected, done + 1]
                             and done % updates == 0):
        return []
    return [f"rollouts of steps {str(steps[:4])[1:-1]}… ({len(steps)}), {done} steps ask for {len(expected)}"]


def _drawn_problems(learned: _Learned, rollout: "Rollout") -> list[str]:
    from workings.rollouts.rollout import sample_seed
    place, problems = f"rollout of step {rollout.step}", []
    wanted = learned.shape.completions // learned.algorithm.group
    rounds, over = divmod(len(rollout.groups), wanted)
    most = learned.algorithm.most_draws
    if over or not 1 <= rounds <= most:
        return [f"{place}: {len(rollout.groups)} groups, updates take {wanted}"]
    places, after = learned.prompts.take(rollout.position, len(rollout.groups))
    if [(each.prompt, each.epoch) for each in places] != [(group.prompt, group.epoch) for group in rollout.groups]:
        problems.append(f"{place}: other prompts than seed and prompts imply")
    if after != rollout.after:
        problems.append(f"{place}: the next one would begin elsewhere")
    if any(len(group.samples) != learned.algorithm.group for group in rollout.groups):
        problems.append(f"{place}: groups of another size")
    seeds = [sample_seed(learned.prompts.seed, rollout.step, group.epoch, group.prompt.item.id, number)
             for group in rollout.groups for number in range(len(group.samples))]
    if seeds != [sample.seed for _, sample in rollout.drawn]:
        problems.append(f"{place}: other seeds than step, prompt and number imply")
    if bool(rollout.reference_log_probs) != bool(learned.algorithm.has_reference and rollout.learned):
        problems.append(f"{place}: log probabilities of a frozen model are there, or missing, against the recipe")
    return [*problems, *_choice_problems(place, rollout.groups, wanted, dynamic=most > 1),
            *_log_prob_problems(place, rollout)]


def _choice_problems(place: str, groups: "Sequence[Group]", wanted: int, *, dynamic: bool) -> list[str]:
    from workings.rollouts.rollout import choose
    spreads = [group.has_spread for group in groups]
    problems = []
    if choose(spreads, wanted, dynamic=dynamic) != [group.kept for group in groups]:
        problems.append(f"{place}: other groups were learned from than the rule chooses")
    # It draws again only as long as groups are missing.
    if len(groups) > wanted and sum(choose(spreads[:-wanted], wanted, dynamic=dynamic)) == wanted:
        problems.append(f"{place}: more was drawn than the rule asks for")
    return problems


def _log_prob_problems(place: str, rollout: "Rollout") -> list[str]:
    import numpy as np
    drawn = [np.asarray(sample.completion.log_probs) for _, sample in rollout.drawn]
    # A logarithm of a probability is at most 0; rounding may lift it a little.
    if any(not np.isfinite(x).all() or (x > 1e-3).any() for x in (
            *drawn, *rollout.trainer_log_probs, *rollout.reference_log_probs)):
        return [f"{place}: log probabilities above 0 or not finite"]
    return []


def _template(unit: Unit) -> "ChatTemplate":
    return unit.once("chat template", lambda: _read_template(unit))


def _read_template(unit: Unit) -> "ChatTemplate":
    """The run's chat template on the tokenizer that its record holds."""
    from workings.models.chat import ChatTemplate
    from workings.models.tokenizer import Tokenizer
    # The record may be a zip, and the library reads folders.
    with tempfile.TemporaryDirectory(prefix="workings-verify-") as folder:
        for name in (name for name in unit.files if name.startswith(f"{TOKENIZER}/")):
            (Path(folder) / name.rpartition("/")[2]).write_bytes(unit.read(name))
        try:
            tokenizer = Tokenizer.load(Path(folder))
            data = unit.manifest.config_snapshot.get("data", {})
            template = ChatTemplate.for_config(str(data.get("template")), tokenizer, str(data.get("reasoning")))
        except RequestError as error:
            raise RecordError(f"{TOKENIZER}: {error.given[:120]}") from None
        if tokenizer.digest != unit.manifest.data_digests.get("tokenizer"):
            raise RecordError(f"{TOKENIZER}: not the tokenizer that the manifest names")
    return template


def _rewarded_again(learned: _Learned, template: "ChatTemplate", without: set[str]
                    ) -> tuple[list[str], int, list[str]]:
    """What differs, how many rewards were computed, and names of those that are not ours."""
    from dataclasses import replace

    from workings.config.rewards import FileReward, reward_name
    from workings.rollouts.rollout import to_reward
    from workings.scoring.rewards import RewardProcess
    settings = _settings(learned)
    ours = tuple(reward for reward in settings.rewards
                 if not isinstance(reward, FileReward) and reward_name(reward) not in without)
    own = [reward_name(reward) for reward in settings.rewards if isinstance(reward, FileReward)]
    if not ours:
        return [], 0, own
    problems, count = [], 0
    with RewardProcess(replace(settings, rewards=ours)) as process:
        for rollout in learned.rollouts:
            values = process.score([to_reward(prompt, sample.completion, template.tokenizer)
                                    for prompt, sample in rollout.drawn])
            for (prompt, sample), found in zip(rollout.drawn, values, strict=True):
                count += len(found)
                problems += [f"rollout of step {rollout.step}, {prompt.item.id[:60]!r}: {name} is "
                             f"{str(sample.rewards.get(name))[:20]}, rewarded again {value:g}"
                             for name, value in found.items() if sample.rewards.get(name) != value]
    return problems, count, own
