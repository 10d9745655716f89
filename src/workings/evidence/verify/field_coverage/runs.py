"""Rows of the coverage table: a run's own files, and what lies beside it.

File -> rows of: fields (several with a space between them), id of the check that finds a change, and what the field
follows from. `~` before an id: held against bounds, or in some lines only. No id: nothing in a record contradicts it.
`?` behind a field: only some records have it; `?FILE`: all that have that file. All others this version always writes.
"""

Rows = dict[str, tuple[tuple[str, str, str], ...]]
REPLAYED = "only steps that are taken again say so (level 3)"
CLOCK = "a clock said so; it is held against the other times"
CODE = "the word of the code that ran; a replay by that code says more"
COPY = "its copy in the manifest"
TOLD = "told alike in all its places nothing contradicts it; " + REPLAYED
NAMES = "told alike in all its places nothing contradicts it: a name, or what was shown while it trained"
ALIKE = "; told alike in all of them nothing contradicts it"

_MANIFEST = (
    ("schema_version", "form.schema", "the forms that there are"),
    ("name", "consistency.attempts", "the list of attempts beside the run"),
    ("recipe requested_device", "~consistency.config", "the recipe" + ALIKE),
    ("seed engine", "consistency.config", "the recipe"),
    ("status completed_steps training_steps planned_steps", "consistency.status", "the seal, the recipe, the log"),
    ("status_reason", "~consistency.readme", "the README, which is made of it"),
    ("workings_version", "~consistency.machine", "the packages of the environment" + ALIKE),
    ("engine_distribution.version", "~consistency.engine", "this package's version; of another package only its word"),
    ("engine_distribution.name", "consistency.engine", "this package; of another one there is only its word"),
    ("commit_sha dirty_diff_digest", "", CODE),
    ("config_digest config_snapshot.*", "consistency.config", "the resolved recipe, and its digest"),
    ("data_digests.rows?data/rows.jsonl", "consistency.rows", "the row index"),
    ("data_digests.tokenizer", "consistency.tokenizer", "the tokenizer's files"),
    ("data_digests.prompts?data/prompts.jsonl", "consistency.prompts", "the prompts"),
    ("data_digests.rewards?config/rewards.json", "consistency.prompts", "what decides the rewards"),
    ("data_digests.teacher?config/teacher.json", "consistency.teacher", "the teacher's facts"),
    ("data_digests.*", "~consistency.rows", "their copy; the files themselves are not in a record"),
    ("model_id", "~consistency.readme", "the README, the recipe; whose weights they were only their digests say"),
    ("model_revision weight_digests weight_digests.*", "", "weights that it began with are not in a record; a replay "
                                                          "takes them by these digests"),
    ("architecture parameters", "consistency.model", "the model's shape"),
    ("actual_device.kind", "~consistency.device", "the device that was checked" + ALIKE),
    ("actual_device.platform actual_device.count", "consistency.device", "the device that was checked"),
    ("actual_device.reason", "~consistency.readme", "README and training log" + ALIKE),
    ("requested_dtypes.parameters requested_dtypes.compute requested_dtypes.moments requested_dtypes.*",
     "consistency.model", "the recipe"),
    ("actual_dtypes.compute", "~consistency.model", "the recipe; of an engine from elsewhere only its word"),
    ("actual_dtypes.parameters actual_dtypes.moments actual_dtypes.gradients actual_dtypes.accumulator "
     "actual_dtypes.*", "consistency.tensors", "the tensors of the checkpoints"),
    ("mesh.*", "consistency.machine", "the number of devices, the plan"),
    ("global_batch", "consistency.order", "rows, accumulation and devices"),
    ("memory_limit_bytes", "~consistency.machine", "plan and measurement" + ALIKE),
    ("memory_limit_source", "~consistency.plan", "the plan's reasons" + ALIKE),
    ("measured_peak_bytes", "~consistency.plan", "the measurement beside the plan, where there is one; the log"),
    ("measured_peak_source", "consistency.machine", "measurement and log"),
    ("hardware", "~consistency.machine", "the device" + ALIKE),
    ("vram", "consistency.device", "a CPU has none"),
    ("first_loss final_loss supervised_tokens tokens", "consistency.losses", "the log"),
    ("resumes", "consistency.steps", "the events"),
    ("resumed_from resumed_from.*", "", "the run that it goes on from is another record"),
    ("started_at", "~consistency.time_and_memory", CLOCK),
    ("finished_at", "~consistency.time_and_memory", CLOCK),
    ("training_seconds", "~consistency.time_and_memory", "the log adds up; it is at most the time between start and "
                                                         "end"),
    ("kaggle_notebook_url kaggle_notebook_version kaggle_run_id", "", "what a notebook says of itself"),
    ("facts.forced facts.predicted_peak_bytes", "consistency.plan", "the plan"),
    ("facts.padding_share_of_first_epoch?data/rows.jsonl", "consistency.tokens", "the row index"),
    ("facts.row_index?data/rows.jsonl", "consistency.rows", "the row index, whole"),
    ("facts.smoke", "~consistency.recipe", "a run that is said to be no smoke run gives its recipe again"),
    ("facts.drawn_from.*", "consistency.drawn_from", "the samples that it names"),
    ("facts.*", "", CODE),
)
_METRICS = (
    ("step", "consistency.steps", "the lines before and after"),
    ("loss", "~consistency.log", "first and last in the manifest, some in the training log; " + REPLAYED),
    ("learning_rate", "consistency.learning_rate", "peak, warm-up, schedule and steps of the recipe"),
    ("grad_norm share_of_weights_changed", "", REPLAYED),
    ("tokens supervised_tokens positions", "consistency.tokens", "the rows of the step's batch"),
    ("batch_digest", "consistency.order", "seed and row index"),
    ("seconds", "~consistency.time_and_memory", "their sum, and the time between start and end"),
    ("memory_bytes", "~consistency.time_and_memory", "it never falls, and is at most the manifest's peak"),
    ("memory_source", "consistency.machine", "the manifest"),
    ("evaluation_loss?", "consistency.log", "the training log"),
    ("evaluation_supervised_tokens?", "~consistency.tokens", "the other lines"),
    ("teacher_mass? teacher_entropy?", "recompute.top_tokens", "what the teacher said"),
    ("reward? kl_teacher?", "~consistency.log", "the rollouts; the training log"),
    ("*", "", REPLAYED),
)
_PLAN = (
    ("peak_bytes source", "~consistency.plan", "measurement, manifest and peaks; earlier records have none of them"),
    ("fits marginal", "consistency.plan", "peak and limit"),
    ("limit_bytes devices mesh.* recipe", "consistency.machine", "the manifest"),
    ("versions.*", "~consistency.machine", "the packages of the environment, where they are among them"),
    ("available_bytes", "~consistency.plan", "the measurement" + ALIKE),
    ("batch.*", "consistency.plan", "the measurement, the recipe"),
    ("program peaks.*", "~consistency.plan", "the peak is the largest, that of the program"),
    ("reasons.*", "~consistency.plan", "peak and limit stand in the first; the others are words"),
    ("culprit", "~consistency.plan", "the parts"),
    ("*", "", "what the compiler said, or a formula; `workings plan` with the same versions says it again"),
)
_CHECKPOINT = {
    "checkpoints/*/COMMIT.json": (("*", "integrity.checkpoints", "the files beside it"),),
    "checkpoints/*/state.json": (
        ("step", "consistency.checkpoints", "the folder's name"),
        ("facts.tokens facts.supervised_tokens facts.training_seconds", "consistency.checkpoints", "the log adds up"),
        ("facts.position.*", "~consistency.tokens", "where the data go on after its step; of rollouts only a word"),
        ("*", "", "no check knows it"),
    ),
    "checkpoints/*/*.safetensors": (
        ("header", "consistency.tensors", "model, method, number formats, optimizer and step"),
        ("numbers", "", REPLAYED),
    ),
}
_RUN: Rows = {
    "run_manifest.json": _MANIFEST,
    "README.md": (("", "consistency.readme", "made again from manifest, plan and rows"),),
    "config/recipe.yaml": (("values", "consistency.recipe", "with the overrides they give the resolved recipe"),
                           ("comments", "", "a person's words")),
    "config/overrides.json": (
        ("overrides overrides.* renamed renamed.*", "consistency.recipe", "with the recipe they give the resolved one"),
        ("origin base files.*?", "~consistency.readme", "the command in the README, which is made of it"),
        ("*", "", "words about a choice"),
    ),
    "config/resolved.json": (
        ("optimizer.name", "consistency.config", "the recipe as written; the moments of the checkpoints"),
        ("optimizer.* algorithm.* method.name method.alpha? method.dropout? precision.rounding memory.* "
         "data.max_length data.over_length", "~consistency.config", TOLD),
        ("name engine device data.traces tokenizer model.id? model.revision? evaluation.items evaluation.traces "
         "evaluation.base evaluation.samples evaluation.every_steps evaluation.watch?", "~consistency.config", NAMES),
        ("checkpoint.every_steps checkpoint.keep_last training.warmup_steps", "~consistency.config",
         "the checkpoints, and the rates of the log, where the run is long enough to tell" + ALIKE),
        ("*", "consistency.config", "the manifest's snapshot, and its digest; what it decides")),
    "config/model_shape.json": (
        ("family layers width heads kv_heads head_dim mlp_width vocab_size", "consistency.model",
         "recipe, number of parameters, tensors"),
        ("*", "~consistency.model", "the recipe, where it names them; the number of parameters"),
    ),
    "config/tokenizer/tokenizer.json": (("*", "consistency.tokenizer", "the tokenizer's digest"),),
    "config/tokenizer/tokenizer_config.json": (
        ("bos_token* eos_token* pad_token* chat_template*", "consistency.tokenizer", "the tokenizer's digest"),
        ("*", "", "other people's settings; none of them decides a token here"),
    ),
    "config/tokenizer/*": (("*", "", "other people's files; none of them decides a token here"),),
    "config/rewards.json": (("*", "consistency.prompts", "its digest in the manifest"),),
    "config/teacher.json": (("*", "~consistency.teacher", "its digest in the manifest; that it was asked, only a "
                                                          "replay says"),),
    "env/env_info.json": (
        ("packages.workings", "consistency.machine", "the manifest"),
        ("packages.*", "~consistency.announced", "plan and evaluation, where they name it" + ALIKE),
        ("machine.cpu_model machine.memory_bytes", "~consistency.machine", "of a run on a CPU the manifest" + ALIKE),
        ("*", "~consistency.views", "the same as text, which is made of it"),
    ),
    "env/env_info.txt": (("", "consistency.views", "made again from the JSON"),),
    "env/device_checks.json": (
        ("platform kind count", "consistency.device", "the manifest"),
        ("devices.*", "~consistency.device", "their number and platform"),
        ("*", "", "what a kernel gave on that day"),
    ),
    "env/doctor.json": (("*", "", "what was found on that day, in words"),),
    "env/*": (("*", "", "what the engine said of its surroundings"),),
    "plan/plan.json": _PLAN,
    "plan/measured.json": (
        ("limit_bytes measured_source", "consistency.machine", "the manifest"),
        ("predicted_peak_bytes predicted_source predicted_for_batch.* measured_peak_bytes available_bytes "
         "measured_share_of_predicted", "consistency.plan", "plan, manifest, and each other"),
        ("growth_bytes", "~consistency.plan", "its share of the prediction, at four digits; the peak"),
        ("out_of_memory", "consistency.plan", "an event, and the status"),
        ("resident_before_bytes peak_before_bytes", "~consistency.plan", "at most the peak, and the growth agrees"),
        ("*", "", "no check knows it"),
    ),
    "data/digests.json": (("*", "consistency.rows", COPY),),
    "data/rows.jsonl": (
        ("id digest", "~consistency.rows", "the digest of the index, the batches; the data are not in a record"),
        ("tokens", "consistency.tokens", "the log's counts of every step"),
        ("supervised_tokens", "consistency.log", "the sum over all rows; of rows that were reached, the steps' counts"),
        ("status reason?", "consistency.tokens", "the recipe's longest row"),
        ("prompt_digest earlier_prompt_digests.*", "~consistency.rows", "the digest of the whole index, where the run "
                                                                       "recorded it; the data are not in a record"),
        ("learned_turns.*", "consistency.rows", "the row's supervised tokens"),
        ("*", "", "no check knows it"),
    ),
    "data/traces.jsonl": (("*", "consistency.rows", "its digest in the manifest"),),
    "data/items.jsonl": (("*", "consistency.rows", "its digest in the manifest"),),
    "data/prompts.jsonl": (
        ("item.expected_answer", "~consistency.prompts", "the digest of the prompts, the rewards of those that were "
                                                         "drawn; the data are not in a record"),
        ("*", "consistency.prompts", "the digest of the prompts, and what was drawn")),
    "train/metrics.jsonl": _METRICS,
    "train/events.jsonl": (
        ("attempt", "consistency.attempts", "the list of attempts"),
        ("kind", "~consistency.steps", "resumes of the manifest, the start, memory that ran out"),
        ("time", "~consistency.time_and_memory", CLOCK),
        ("items.*", "~consistency.announced", "the evaluation; where both are changed only the items' file says so"),
        ("decoding.*", "consistency.announced", "the recipe, and the evaluation"),
        ("evaluation?", "consistency.announced", "where the evaluation stands"),
        ("*", "", "what happened, in the run's words"),
    ),
    "train/training_log.txt": (
        ("steps", "consistency.log", "the metrics; what was announced before the first: manifest, shape and recipe"),
        ("other lines", "", "samples, rates and words for people"),
    ),
    "train/machine.jsonl": (("*", "", "what the machine said of itself at that moment"),),
    "train/rollouts/*.json": (("*", "~consistency.rollouts", "seed, prompts, log and rewards; " + REPLAYED),),
    "train/top_tokens/*.safetensors": (
        ("header", "consistency.top_tokens", "the rows, the recipe, the model's vocabulary"),
        ("numbers", "~consistency.top_tokens", "they are distributions, with the log's means; " + REPLAYED)),
    "train/reference_log_probs.jsonl": (("*", "~consistency.reference", "the rows; " + REPLAYED),),
    **_CHECKPOINT,
}
_BESIDE: Rows = {
    "attempts.jsonl": (
        ("run config_digest", "~consistency.attempts", "the runs that are here; of others only the lines that follow"),
        ("started_at", "~consistency.attempts", "the start of its run, the lines that follow"),
        ("after", "consistency.attempts", "the line before"),
        ("*", "~consistency.attempts", "the digest in the run's events, where it has one"),
    ),
}
_SEAL = (
    ("schema root unit", "integrity.sealed", "sums and place"),
    ("status", "consistency.status", "the manifest"),
    ("made_from", "consistency.made_from", "the run around it"),
)
_RUN["SEAL.json"] = _SEAL
_RUN["SHA256SUMS"] = (("", "integrity.sums", "the bytes of every file"),)
TABLES: dict[str, Rows] = {"run": _RUN, "beside": _BESIDE}
