"""What shows that each option of each command matters: a table for the reference page, and for the test that tries it.

`tests/cli/test_option_effects.py` runs the words of a command twice in one process, without the option and with it,
each in an empty folder, and compares exit code, output and written files. A command that takes minutes names the test
that shows the option's effect. An option that is not here fails that test.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """Two calls that have to differ; where the second is refused, it has to be for the option."""

    base: str
    other: str


@dataclass(frozen=True)
class Named:
    """A test that shows the effect, as FILE::TEST below `tests/`."""

    test: str


def _tried(verb: str, base: str, *others: str) -> dict[str, Tried | Named]:
    """Cases that add words to the same call; the first of the words is the option."""
    return {f"{verb} {other.split()[0]}": Tried(f"{verb} {base}", f"{verb} {base} {other}") for other in others}


def _named(verb: str, **tests: str) -> dict[str, Tried | Named]:
    return {f"{verb} --{name.strip('_').replace('_', '-')}": Named(test) for name, test in tests.items()}


_RULES = ("--keep all", "--valid-steps", "--most 1", "--pairs right-wrong", "--prompts-out solved.jsonl", "--out other")
_OPENED = "--template gemma --engine torch --device cpu"
_WEIGHTS = ("--template plain", "--engine jax", "--precision bf16")
_GENERATED = (*_WEIGHTS, "--max-new-tokens 5", "--batch-size 2", "--temperature 0.5", "--samples 3", "--seed 4")
_KAGGLE, _SKYPILOT, _KUBERNETES = (f"smoke-tiny engine=torch device=cpu --write out {words}" for words in (
    "--for kaggle --on t4x2 --user x --wheel HERE/WHEEL", "--for skypilot --on cpu --wheel HERE/WHEEL",
    "--for kubernetes --on cpu --hosts 1 --image x"))
_ASKED, _ANSWERED = (f"runs/test_task_evaluation.py::test_{name}" for name in (
    "a_run_is_asked_by_its_name_sealed_compared_and_verified",
    "what_the_model_writes_is_cut_at_stop_texts_and_filtered"))
_IMPROVE, _SELECTED = "runs/test_improve.py", "samples/test_selection.py::{}"
_PUSHED = "publish/test_push.py::test_the_hub_gets_the_very_bytes_and_the_record_verifies_after_a_download"
_SELECTION = {"most": _SELECTED.format("test_the_first_that_were_drawn_are_kept"),
              "valid_steps": _SELECTED.format("test_a_right_answer_for_a_wrong_reason"),
              "most_pairs": _SELECTED.format("test_best_against_worst_as_long_as_scores_differ")}
_JUDGED = "--url http://127.0.0.1:1/v1 --model m --items HERE/rows.jsonl --out out"
_DRAWN = "--form tags --keep all --prompts HERE/add/items.jsonl --out out --max-new-tokens 4 --samples 2"
_EVALUATED = "--items HERE/add/items.jsonl --out out --max-new-tokens 4 --temperature 1 --samples 2"

EFFECTS: dict[str, Tried | Named] = {
    **_tried("quickstart", "--out HERE/rows.jsonl", "--out HERE/gsm.jsonl", "--tiny --rewards", "--rewards --tiny"),
    **_named("quickstart", seed="runs/test_quickstart.py::test_quickstart_leaves_two_equal_runs_and_a_page"),
    **_named("doctor", out="doctor/test_checks.py::test_room_for_all_checkpoints_and_the_one_being_written",
             setup="doctor/test_verb.py::test_setting_up_cuda_without_a_card_is_refused_and_nothing_is_written",
             **dict.fromkeys(("steps", "whole"), "runs/test_parity.py::test_steps_and_the_own_model_count"),
             engines="runs/test_parity.py::test_a_model_that_one_engine_lacks_is_refused"),
    **_tried("plan", "gemma-2b-t4 --on t4 --formula", "--on rtx5090", "--deadline 1m"),
    "plan --formula": Named("ui/test_start_form.py::test_what_the_formula_says_stands_beside_the_form"),
    **_named("plan", nearest="planning/test_plan.py::test_several_targets_at_once"),
    **_tried("train", "smoke-tiny --out HERE/runs/a", "--out HERE/runs/b", "--resume", "--auto-resume"),
    **_named("train", smoke="runs/test_shipped_recipes.py::test_smoke",
             track="cli/test_verbs.py::test_train_ask_verify_and_score_again",
             smoke_steps="cli/test_python_arguments.py::test_a_smoke_run_has_the_steps_that_were_asked_for",
             force="runs/test_memory_check.py::"
             "test_a_program_that_the_compiler_refuses_is_a_verdict_that_no_force_can_change"),
    **_tried("launch", "smoke-tiny engine=torch device=cpu --for slurm --write out --on cpu --hosts 1",
             "--for kubernetes --image x", "--write other", "--home /shared/x", "--hosts 2", "--name other"),
    **_tried("launch", _KUBERNETES, "--image y", "--claim y"), **_tried("launch", _SKYPILOT, "--storage gs://x"),
    **_tried("launch", _KAGGLE, "--on v5e-8", "--user y", "--smoke", "--wheel HERE/newer/WHEEL"),
    **_named("launch", cards="launching/test_launch.py::test_machines_are_tried_from_the_smallest"),
    **_tried("data sample", f"HERE/weights {_OPENED} {_DRAWN}", *_GENERATED, "--form hashes", "--out other"),
    **_tried("data sample", f"HERE/bare {_OPENED} {_DRAWN}", "--tokenizer HERE/weights"),
    **_tried("data sample", "HERE/runs/a --prompts HERE/add/items.jsonl --out HERE/runs", "--revision main"),
    **_named("data sample", **dict.fromkeys(("keep", "pairs", "prompts", "prompts_out", "scorer"),
                                       "runs/test_sample.py::test_what_was_asked_for_wrongly_is_named"),
             device="runs/test_sample.py::test_both_engines_draw_from_weights", **_SELECTION),
    **_named("improve", **dict.fromkeys(("out", "samples", "most", "rounds", "all_rounds"),
                                        f"{_IMPROVE}::test_a_round_and_a_further_round"),
             prompts=f"{_IMPROVE}::test_a_held_out_item_among_the_prompts_is_refused",
             temperature=f"{_IMPROVE}::test_what_cannot_be_improved_is_refused_before_anything_is_trained",
             keep=_SELECTED.format("test_the_best_of_a_prompt_are_kept_where_they_earned_something")),
    **_named("ask", **dict.fromkeys(("temperature", "seed", "history", "max_new_tokens"),
                                    "cli/test_verbs.py::test_train_ask_verify_and_score_again"),
             **dict.fromkeys(("base", "pieces"), "ui/test_ask.py::test_answers_come_one_after_the_other")),
    **_tried("eval", "--predictions HERE/said.jsonl --items HERE/add/items.jsonl --out out", "--items HERE/fewer.jsonl",
             "--predictions HERE/wrong.jsonl", "--out other", "--device cpu", "--revision main", "--scorer exact",
             "--rules boxed", "--form think"),
    **_tried("eval", f"HERE/weights {_OPENED} {_EVALUATED}", *_GENERATED, "--aggregate majority"),
    **_tried("eval", f"HERE/bare {_OPENED} {_EVALUATED}", "--tokenizer HERE/weights"),
    **_named("eval", task=_ASKED, limit=_ASKED, few_shot=_ANSWERED, harness_filter=_ANSWERED,
             harness_metric="runs/test_task_against_hf.py::test_log_likelihoods_and_choices"),
    **_tried("compare", "HERE/pair/steps HERE/pair/plain", "--with-a HERE/pair/steps", "--with-b HERE/pair/plain", "--html page.html",
             "--equivalent-within 2"),
    **_tried("compare", "HERE/pair/plain --gate HERE/baselines/a", "--max-drop 0.99"),
    **_tried("compare", "HERE/pair/steps --gate HERE/baselines/a --max-drop 0", "--inconclusive pass"),
    "compare --gate": Tried("compare HERE/pair/plain --gate HERE/baselines/a", "compare HERE/pair/plain --gate HERE/others/a"),
    "compare --save": Tried("compare HERE/pair/steps --save d/x", "compare HERE/pair/steps --save d/y"),
    **_tried("verify", "HERE/small/a", "--level 1", "--require-level 3", "--expect-root 00", "--key HERE/rows.jsonl",
             "--steps 3", "--whole", "--seed 3", "--data HERE/rows.jsonl", "--weights HERE/runs",
             "--verbose", "--render README.md"),
    **_tried("pack", "HERE/small/a --out out.zip", "--out other.zip", "--weights digest"),
    **_tried("push", "HERE/small/a me/model --license mit", "--run HERE/small/b"),
    **_named("push", yes=_PUSHED, license=_PUSHED, private=_PUSHED, accept_terms="publish/test_push.py::test_what_a_licence_forbids_needs_a_word"),
    **_named("ui", port="ui/test_browser.py::test_a_person_clicks_through",
             browser="ui/test_browser.py::test_a_person_clicks_through",
             new_token="ui/test_guard.py::test_links_stay_good_until_a_new_token_is_asked_for"),
    # The test's server answers one question.
    **_tried("serve", f"HERE/weights {_OPENED} --port 0", *_WEIGHTS),
    **_tried("serve", f"HERE/bare {_OPENED} --port 0", "--tokenizer HERE/weights"),
    **_named("serve", device="runs/test_broken_models.py::test_verbs_say_it_in_words_and_hold_nothing",
             port="serving/test_serve.py::test_a_port_that_is_taken_is_refused"),
    **_named("mcp", folder="runs/test_agent_tools.py::test_a_session_of_the_sdk_s_client"),
    **_tried("export", "HERE/runs/a --out out", "--out other", "--format gguf", "--device tpu"),
    **_tried("export", "HERE/runs/a --out out --format gguf", "--type q8_0"),
    **_tried("data import", "HERE/rows.jsonl --out out.jsonl --format question-answer", "--out other.jsonl",
             "--rows 2", "--ignore id", "--hold-out 2", "--revision main", "--subset main", "--split test", "--section x",
             "--category x", "--difficulty x", "--source x", "--licence x"),
    **_tried("data import", "HERE/named.jsonl --out o.jsonl --format question-answer", "--map question=q"),
    **_tried("data import", "HERE/pairs.jsonl --out o.jsonl --format prompt-completion", "--completions keep"),
    **_tried("data import", "HERE/gsm.jsonl --out o.jsonl --format question-answer --on-error skip", "--format gsm8k"),
    "data import --seed": Tried("data import HERE/rows.jsonl --out o.jsonl --format question-answer --hold-out 3",
                                "data import HERE/rows.jsonl --out o.jsonl --format question-answer --hold-out 3 --seed 5"),
    "data import --on-error": Tried("data import HERE/gsm.jsonl --out o.jsonl --format gsm8k",
                                    "data import HERE/gsm.jsonl --out o.jsonl --format gsm8k --on-error skip"),
    "data import --force": Tried("data import HERE/rows.jsonl --out HERE/made.jsonl --format question-answer",
                                 "data import HERE/rows.jsonl --out HERE/made.jsonl --format question-answer --force"),
    **_tried("data make", "addition --out out --n 5 --items 2", "--out other", "--n 6", "--items 3", "--seed 4"),
    "data make --force": Tried("data make addition --out HERE/again --n 5 --items 2",
                               "data make addition --out HERE/again --n 5 --items 2 --force"),
    **_tried("data check", "HERE/add/traces.jsonl", "--against HERE/add/traces.jsonl",
             "--recipe HERE/short.yaml",             "--fix", "--findings found.jsonl"),
    **_tried("data preview", "smoke-tiny", "--n 1", "--row add-50-78"),
    **_tried("data select", "HERE/samples --out out", *_RULES, "--most-pairs 2"),
    **_tried("reward check", "HERE/recipe.yaml --no-model --prompts 2", "--prompts 3"),
    "reward check --no-model": Named("cli/test_reward.py::test_samples_are_drawn"),
    **_tried("reward judge", _JUDGED, "--out HERE/gsm.jsonl"),
    **_named("reward judge", **dict.fromkeys(("url", "items", "model", "max_tokens"),
                                             "evaluation/test_judge.py::test_agreement_is_measured_and_the_judge_attacked")),
    **_tried("runs sign", "HERE/runs/a --key HERE/none", "--key HERE/rows.jsonl", "--new-key k"),
}

_API = "runs/test_api.py::{}"
_WHOLE, _VERBS = (_API.format(name) for name in ("test_rows_and_a_model_are_a_run_that_keeps_them_and_draws_itself",
                                                 "test_the_verbs_as_functions"))
_PLAN, _EVIDENCE = "planning/test_plan.py::{}", "evidence/test_{}"


def _shown(function: str, **tests: str) -> dict[str, str]:
    return {f"{function} {name}": test for name, test in tests.items()}


ARGUMENTS: dict[str, str] = {
    **_shown("train", **dict.fromkeys(("recipe", "out", "overrides"), _VERBS),
             **dict.fromkeys(("model", "data", "items", "method", "steps", "callbacks"), _WHOLE),
             epochs="runs/test_epochs.py::test_a_model_and_rows_in_python_take_epochs",
             learning_rate=_API.format("test_a_short_run_learns_and_its_rate_is_said"),
             rewards=_API.format("test_a_function_given_in_python_is_a_reward"),
             resume=_API.format("test_errors_name_the_arguments"),
             smoke="cli/test_python_arguments.py::test_a_smoke_run_has_the_steps_that_were_asked_for",
             force="runs/test_memory_check.py::"
             "test_a_program_that_the_compiler_refuses_is_a_verdict_that_no_force_can_change",
             track=_API.format("test_a_tracker_that_is_none_is_refused_first"),
             unknown=_API.format("test_words_of_other_trainers_are_refused_with_what_they_are_here")),
    **_shown("evaluate", **dict.fromkeys(("run", "items", "out", "settings", "device", "on_trained_items"),
                                         _VERBS),
             group="distributed/test_process_group.py::test_two_processes_are_stopped_and_one_goes_on",
             weights="runs/test_eval_weights.py::test_both_engines_answer_from_weights_what_the_run_answers"),
    **_shown("plan", recipe=_PLAN.format("test_without_a_compiler_it_is_estimated_and_says_what_to_install"),
             **dict.fromkeys(("on", "nearest"), _PLAN.format("test_several_targets_at_once")),
             overrides=_PLAN.format("test_the_largest_part_is_a_group_of_parts")),
    **_shown("compare", **dict.fromkeys(("a", "b"), _VERBS),
             equivalent_within="evaluation/test_equivalence.py::test_compare_says_what_is_ruled_out"),
    **_shown("verify", path=_VERBS, expect_root="publish/test_push.py::"
             "test_the_hub_gets_the_very_bytes_and_the_record_verifies_after_a_download",
             level=_EVIDENCE.format("verify.py::test_only_the_levels_asked_for"),
             trusted=_EVIDENCE.format("sign.py::test_two_people_sign_and_only_who_signed_is_trusted"),
             replay="runs/test_train_pairs.py::test_steps_are_taken_again_and_wrong_ones_differ"),
    **_shown("Run.ask", question=_WHOLE, max_new_tokens=_WHOLE),
    **_shown("Run.evaluate", items=_WHOLE, name=_WHOLE),
    **_shown("Run.compare", other=_WHOLE), **_shown("Run.open", path=_WHOLE),
    **_shown("Run.verify", level=_VERBS),
}
"""Arguments of the Python interface: the test that shows each, as FILE::TEST below `tests/`."""
