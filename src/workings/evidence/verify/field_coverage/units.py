"""Coverage rows of evaluations, samples, notes, reports and packs."""

from workings.record.coverage import Fields, checked, partly, record_file, unchecked

ANNOUNCED = "the run's recipe and first events, for an evaluation that was announced"
ANOTHERS_WORD = "somebody else's word"

_SEALED: dict[str, tuple[Fields, ...]] = {
    "SEAL.json": (
        checked("schema root unit", "integrity.sealed", "sums and place"),
        checked("made_from", "consistency.made_from", "the run around it"),
        checked("status", "integrity.sealed", "only a complete unit is kept next to a run"),
    ),
    "SHA256SUMS": (checked("", "integrity.sums", "the bytes of every file"),),
}
_ANSWERS: dict[str, tuple[Fields, ...]] = {
    "eval_config.json": (
        checked("schema", "form.schema", "the forms that there are"),
        checked("items.count items.digest", "consistency.announced", ANNOUNCED),
        checked("made_from", "consistency.made_from", "the seal"),
        checked("tokenizer.digest engine.name", "consistency.evaluated_model", "the run around it"),
        checked("source.kind", "consistency.evaluated_model", "the run around it generates"),
        checked("extraction.version scorer.version scorer.name steps.version", "recompute.scores",
                "this version scores again"),
        checked("scorer.judge.prompt", "recompute.scores", "this version's prompt", optional=True),
        partly("scorer.judge scorer.judge.*", "recompute.scores", "how the judge was checked is as recorded",
               optional=True),
        partly("engine.versions.*", "consistency.announced", "the run's packages, where they are among them"),
        checked("form aggregate template.name template.digest decoding.batch_size decoding.max_new_tokens "
                "decoding.samples decoding.seed decoding.temperature limits.item_seconds limits.child_bytes "
                "limits.max_completion_chars extraction.rules extraction.rules.* source.* second_opinion "
                "second_opinion.* software.workings engine.platform engine.device engine.devices model",
                "consistency.announced", ANNOUNCED),
        checked("model.run", "consistency.announced", ANNOUNCED, optional=True),
        checked("model.step tokenizer template engine decoding", "consistency.announced", ANNOUNCED),
        unchecked("*", "no check knows it"),
    ),
    "eval_summary.json": (
        checked("schema", "form.schema", "the forms that there are"),
        partly("problems problems.*", "consistency.answers", "there are none where completions were drawn"),
        checked("*", "recompute.scorecard", "computed again from the predictions"),
    ),
    "samples.md": (checked("", "consistency.views", "rendered again from the predictions"),),
    "predictions.jsonl": (
        checked("id section category difficulty prompt gold aliases.*", "recompute.items", "the digest of the items"),
        checked("tolerance cluster item_extra", "recompute.items", "the digest of the items", optional=True),
        partly("completion", "recompute.scores",
               "scored again: a text that scores as the recorded one passes; a replay writes it again"),
        checked("judge.question_sha256", "recompute.scores", "the question, made again", optional=True),
        partly("judge.reply", "recompute.scores", "the score that it gives; nobody is asked again", optional=True),
        checked("extracted rule score format_ok reasoning_chars steps_checked steps_valid wrong_steps.*",
                "recompute.scores", "the completion, scored again"),
        checked("sample", "consistency.seeds", "the seed of the evaluation"),
        checked("seed", "consistency.seeds", "the seed of the evaluation", optional=True),
        checked("empty", "consistency.answers", "the completion"),
        partly("truncated finish_reason", "consistency.answers",
               "each other, and the most tokens that were allowed; of completions from elsewhere only each other"),
        partly("completion_tokens", "recompute.scorecard", "their mean, and the longest that was asked for"),
        partly("error completion_chars completion_sha256", "recompute.scores", "what fails here as well",
               optional=True),
        unchecked("*", "no check knows it"),
    ),
}
_PACK: dict[str, tuple[Fields, ...]] = {
    "pack.json": (partly("workings_version", "consistency.views", "the README, where it is this version"),
                  checked("*", "integrity.pack", "the units that are here")),
    "compare.json": (checked("*", "recompute.comparison", "computed again from the predictions"),),
    "model_cards/*": (checked("", "consistency.views", "rendered again from the records"),),
    "rounds.json": (unchecked("seconds", "nothing else says how long all parts took"),
                    partly("stopped", "recompute.rounds", "the last comparison, where it is the reason"),
                    checked("*", "recompute.rounds", "runs and samples of its rounds, compared again")),
    "rounds.html": (checked("", "recompute.rounds", "drawn again from the rounds"),),
    "improve.json": (checked("temperature samples selection.* recipe.*", "recompute.rounds",
                             "the samples, and the recipe of the start"),
                     partly("contents of items", "recompute.rounds", "the digest in the rounds, where it is told"),
                     partly("contents of traces", "recompute.rounds", "the digest in the start, where it is told"),
                     partly("rounds", "recompute.rounds", "at least as many as were made"),
                     unchecked("*", "what was asked for; nothing else says so")),
    "report.html": (checked("", "recompute.report", "drawn again from the records"),),
    "README.md": (checked("", "consistency.views", "rendered again from the records"),),
    "recipes/*": (checked("", "consistency.pack", "the recipes of its runs"),),
    "WRITEUP.md": (partly("", "recompute.writeup", "numbers with a source; the words are somebody's"),),
    "runs/attempts.jsonl": (partly("*", "consistency.attempts", "the runs, and the lines that follow"),),
    "*": (unchecked("*", ANOTHERS_WORD), unchecked("", ANOTHERS_WORD)),
}
_SAMPLES: dict[str, tuple[Fields, ...]] = {
    **_ANSWERS,
    "selection.json": (
        checked("schema", "form.schema", "the forms that there are"),
        checked("counts.*", "recompute.selection", "counted again from the predictions"),
        partly("*", "recompute.selection", "the rules, applied again"),
    ),
    "kept.jsonl": (checked("*", "recompute.selection", "the rules, applied again"),),
    "pairs.jsonl": (checked("*", "recompute.selection", "the rules, applied again"),),
}
_UNITS = {
    "eval": {**_ANSWERS, **_SEALED},
    "samples": {**_SAMPLES, **_SEALED},
    "notes": {"note.json": (
        checked("run", "consistency.notes", "the run around it"),
        checked("schema", "form.notes", "the forms that there are"),
        partly("written_at", "consistency.notes", "it is later than the run"),
        unchecked("*", "said afterwards, by whoever wrote the note")), **_SEALED},
    "report": {**_SEALED, "*": (unchecked("*", "a page for people: what it shows is made elsewhere"),
                                unchecked("", "a page for people: what it shows is made elsewhere"))},
    "pack": {**_SEALED, **_PACK},
}
for _kind, _files in _UNITS.items():
    for _file, _rows in _files.items():
        record_file(_kind, _file, *_rows)
