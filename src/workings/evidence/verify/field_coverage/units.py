"""Rows of the coverage table: evaluations, samples, notes, replays, reports and packs. Its form is that of `runs`."""

from workings.evidence.verify.field_coverage.runs import Rows

ANNOUNCED = "the run's recipe and first events, for an evaluation that was announced"
ANOTHERS_WORD = "somebody else's word"

_SEALED: Rows = {
    "SEAL.json": (
        ("schema root unit", "integrity.sealed", "sums and place"),
        ("made_from", "consistency.made_from", "the run around it"),
        ("status", "integrity.sealed", "a unit beside a run is complete or is none"),
    ),
    "SHA256SUMS": (("", "integrity.sums", "the bytes of every file"),),
}
_ANSWERS: Rows = {
    "eval_config.json": (
        ("schema", "form.schema", "the forms that there are"),
        ("items.count", "consistency.scorecard", "the items that were answered"),
        ("items.digest", "recompute.items", "the items, as the predictions repeat them"),
        ("made_from", "consistency.made_from", "the seal"),
        ("tokenizer.digest engine.name", "consistency.evaluated_model", "the run around it"),
        ("source.kind", "consistency.evaluated_model", "the run around it generates"),
        ("extraction.version scorer.version scorer.name steps.version", "recompute.scores",
         "this version scores again"),
        ("engine.versions.*", "~consistency.announced", "the run's packages, where they are among them"),
        ("form aggregate template.name template.digest decoding.batch_size decoding.max_new_tokens decoding.samples "
         "decoding.seed decoding.temperature limits.item_seconds limits.child_bytes limits.max_completion_chars "
         "extraction.rules extraction.rules.* source.* second_opinion second_opinion.* software.workings "
         "engine.platform engine.device engine.devices model model.run? model.step tokenizer template engine decoding",
         "consistency.announced", ANNOUNCED),
        ("*", "", "no check knows it"),
    ),
    "eval_summary.json": (
        ("schema", "form.schema", "the forms that there are"),
        ("problems problems.*", "~consistency.answers", "there are none where completions were drawn"),
        ("*", "recompute.scorecard", "computed again from the predictions"),
    ),
    "samples.md": (("", "recompute.scorecard", "made again from the predictions"),),
    "predictions.jsonl": (
        ("id section category difficulty prompt gold aliases.* tolerance? cluster? item_extra?", "recompute.items",
         "the digest of the items"),
        ("completion", "~recompute.scores", "scored again: a text that scores as the recorded one passes; a replay "
                                            "writes it again"),
        ("extracted rule score format_ok reasoning_chars steps_checked steps_valid wrong_steps.*", "recompute.scores",
         "the completion, scored again"),
        ("sample seed?", "consistency.seeds", "the seed of the evaluation"),
        ("truncated empty finish_reason", "consistency.answers", "each other, and the completion"),
        ("completion_tokens", "~recompute.scorecard", "their mean, and the longest that was asked for"),
        ("error? completion_chars? completion_sha256?", "~recompute.scores", "what fails here as well"),
        ("*", "", "no check knows it"),
    ),
}
_PACK: Rows = {
    "pack.json": (("workings_version", "consistency.pack", "the README"),
                  ("model_cards readme", "", "the form that the version that packed wrote"),
                  ("*", "integrity.pack", "the units that are here")),
    "claims.json": (("*", "recompute.claims", "the records that it names"),),
    "compare.json": (("*", "recompute.comparison", "computed again from the predictions"),),
    "model_cards/*": (("", "recompute.model_cards", "made again from the records"),),
    "report.html": (("", "recompute.report", "drawn again from the records; its numbers are claims"),),
    "README.md": (("", "consistency.pack", "written again from the records"),),
    "recipes/*": (("", "consistency.pack", "the recipes of its runs"),),
    "WRITEUP.md": (("", "~recompute.claims", "numbers with a source; the words are somebody's"),),
    "runs/attempts.jsonl": (("*", "~consistency.attempts", "the runs, and the lines that follow"),),
    "*": (("*", "", ANOTHERS_WORD), ("", "", ANOTHERS_WORD)),
}
_SAMPLES: Rows = {
    **_ANSWERS,
    "selection.json": (
        ("schema", "form.schema", "the forms that there are"),
        ("counts.*", "recompute.selection", "counted again from the predictions"),
        ("*", "~recompute.selection", "the rules, applied again"),
    ),
    "kept.jsonl": (("*", "recompute.selection", "the rules, applied again"),),
    "pairs.jsonl": (("*", "recompute.selection", "the rules, applied again"),),
}
# The first row that fits counts, so `*` belongs behind all others.
TABLES: dict[str, Rows] = {
    "eval": {**_ANSWERS, **_SEALED},
    "samples": {**_SAMPLES, **_SEALED},
    "notes": {"note.json": (
        ("run", "consistency.notes", "the run around it"), ("schema", "form.notes", "the forms that there are"),
        ("written_at", "~consistency.notes", "it is later than the run"),
        ("*", "", "said afterwards, by whoever wrote the note")), **_SEALED},
    "replay": {**_SEALED, "replay.json": (("*", "~recompute.replay", "its own numbers, and the run's"),),
               "env_info.json": (
                   ("machine.cpu_model machine.architecture machine.usable_cores machine.threads machine.threads.* "
                    "variables variables.* packages.*", "~recompute.replay", "the conditions that it was judged by"),
                   ("*", "", "where it was replayed"),
               ),
               "*": (("*", "", "where and with what it was replayed"), ("", "", ANOTHERS_WORD))},
    "report": {**_SEALED, "*": (("*", "", "a page for people: what it shows is made elsewhere"),
                                ("", "", "a page for people: what it shows is made elsewhere"))},
    "pack": {**_SEALED, **_PACK},
}
