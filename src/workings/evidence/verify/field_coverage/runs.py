"""Coverage rows of a run's own files, and of what lies beside it."""

from workings.record.coverage import ALIKE, CLOCK, REPLAYED, Fields, checked, partly, record_file, unchecked

TOLD = "told alike in all its places nothing contradicts it; " + REPLAYED
NAMES = "told alike in all its places nothing contradicts it: a name, or what was shown while it trained"

_METRICS = (
    checked("positions padding", "consistency.tokens", "the rows of the step's batch"),
    unchecked("evaluation_loss", REPLAYED),
    partly("evaluation_supervised_tokens", "consistency.tokens", "the other lines", optional=True),
    unchecked("*", REPLAYED),
)
_PLAN = (
    partly("peak_bytes source", "consistency.plan", "parts and peaks; the README"),
    checked("fits marginal", "consistency.plan", "peak and limit"),
    checked("limit_bytes", "consistency.plan", "the first reason; of a run on a CPU the machine"),
    checked("devices mesh.* recipe", "consistency.machine", "the device checks, the recipe"),
    partly("versions.*", "consistency.machine", "the packages of the environment, where they are among them"),
    partly("available_bytes", "consistency.plan", "peak and verdict"),
    checked("batch.*", "consistency.plan", "the recipe, the positions of the steps"),
    partly("program peaks.*", "consistency.plan", "the peak is the largest, that of the program"),
    partly("reasons.*", "consistency.plan", "peak and limit stand in the first, one is the culprit; others are words"),
    partly("culprit", "consistency.plan", "the largest of the parts"),
    partly("parts.* breakdown.*", "consistency.plan",
           "they add up to the peak, and give the culprit; on a CPU what the compiler counted follows from the recipe"),
    partly("target", "consistency.plan", "the run's device, by its name in the catalog"),
    unchecked("*", "what the compiler said, or a formula; `workings plan` with the same versions says it again"),
)
_CHECKPOINT = {
    "checkpoints/*/COMMIT.json": (checked("*", "integrity.checkpoints", "the files beside it"),),
    "checkpoints/*/state.json": (
        checked("step", "consistency.checkpoints", "the folder's name"),
        checked("facts.tokens facts.supervised_tokens facts.training_seconds", "consistency.checkpoints",
                "the log adds up"),
        partly("facts.position.*", "consistency.tokens",
               "where the data go on after its step; of rollouts only a word"),
        unchecked("*", "no check knows it"),
    ),
    "checkpoints/*/*.safetensors": (
        checked("header", "consistency.tensors", "model, method, number formats, optimizer and step"),
        unchecked("numbers", REPLAYED),
    ),
}
_RUN: dict[str, tuple[Fields, ...]] = {
    "README.md": (checked("", "consistency.views", "rendered again from the record"),),
    "config/recipe.yaml": (checked("values", "consistency.recipe", "with the overrides they give the resolved recipe"),
                           unchecked("comments", "a person's words")),
    "config/overrides.json": (
        checked("overrides overrides.* renamed renamed.*", "consistency.recipe",
                "with the recipe they give the resolved one"),
        partly("origin base files.*", "consistency.views", "the command in the README"),
        unchecked("chosen chosen.*", "words about a choice"),
        unchecked("*", "words about a choice"),
    ),
    "config/resolved.json": (
        checked("optimizer.name", "consistency.recipe", "the recipe as written; the moments of the checkpoints"),
        partly("optimizer.* algorithm.* method.name", "consistency.recipe", TOLD),
        partly("method.alpha method.rank_stabilized", "consistency.recipe", TOLD, optional=True),
        partly("precision.rounding memory.* data.max_length data.over_length", "consistency.recipe", TOLD),
        partly("name engine device data.traces tokenizer", "consistency.recipe", NAMES),
        partly("model.id model.revision", "consistency.recipe", NAMES, optional=True),
        partly("evaluation.items evaluation.traces evaluation.base evaluation.samples evaluation.every_steps",
               "consistency.recipe", NAMES),
        partly("evaluation.items_during_training", "consistency.recipe", NAMES, optional=True),
        partly("checkpoint.every_steps checkpoint.every_minutes checkpoint.keep_last training.warmup_steps",
               "consistency.recipe",
               "the checkpoints, and the rates of the log, where the run is long enough to tell" + ALIKE),
        checked("*", "consistency.recipe", "the recipe as written; what it decides")),
    "config/model_shape.json": (
        checked("family layers width heads kv_heads head_dim mlp_width vocab_size", "consistency.model",
                "recipe, number of parameters, tensors"),
        partly("*", "consistency.model", "the recipe, where it names them; the number of parameters"),
    ),
    "config/tokenizer/tokenizer.json": (checked("*", "consistency.tokenizer", "the tokenizer's digest"),),
    "config/tokenizer/tokenizer_config.json": (
        checked("bos_token* eos_token* pad_token* chat_template*", "consistency.tokenizer", "the tokenizer's digest"),
        unchecked("*", "other people's settings; none of them decides a token here"),
    ),
    "config/tokenizer/*": (unchecked("*", "other people's files; none of them decides a token here"),),
    "env/env_info.json": (
        checked("packages.workings", "consistency.engine", "the version of the engine, where it is of this package"),
        partly("packages.*", "consistency.announced", "plan and evaluation, where they name it" + ALIKE),
        partly("machine.cpu_model machine.memory_bytes", "consistency.machine",
               "of a run on a CPU the device checks, plan and measurement" + ALIKE),
        unchecked("*", "what the machine said of itself on that day"),
    ),
    "env/device_checks.json": (
        partly("devices.*", "consistency.device", "their number and platform; in one process no name comes twice"),
        checked("weights weights.*", "consistency.device", "the weights of the manifest, for each process"),
        unchecked("*", "what a kernel gave on that day"),
    ),
    "env/doctor.json": (
        checked("problems", "consistency.machine", "the findings that are problems"),
        partly("findings.*.judgement findings.*.what", "consistency.machine",
               "the number of problems; the finding about accelerators is held against the device"),
        unchecked("*", "what was found on that day, in words"),
    ),
    "env/*": (unchecked("*", "what the engine said of its surroundings"),),
    "plan/plan.json": _PLAN,
    "plan/measured.json": (
        checked("measured_source", "consistency.machine", "the lines of the log"),
        partly("measured_peak_bytes", "consistency.time_and_memory", "log and limit bound it; the README" + ALIKE),
        partly("growth_bytes", "consistency.plan", "the peak, and what the process held before"),
        checked("out_of_memory", "consistency.plan", "an event, and the status"),
        partly("resident_before_bytes peak_before_bytes", "consistency.plan",
               "at most the peak, and the growth agrees"),
        unchecked("*", "no check knows it"),
    ),
    "data/digests.json": (
        checked("rows", "consistency.rows", "the row index", only_with_file="data/rows.jsonl"),
        checked("tokenizer", "consistency.tokenizer", "the tokenizer's files"),
        checked("prompts", "consistency.prompts", "the prompts", only_with_file="data/prompts.jsonl"),
        checked("rewards", "consistency.prompts", "what decides the rewards", only_with_file="config/rewards.json"),
        checked("teacher", "consistency.teacher", "the teacher's facts", only_with_file="config/teacher.json"),
        partly("*", "consistency.rows", "the data where the record stores them; other files are not in a record")),
    "data/rows.jsonl": (
        partly("id digest", "consistency.rows", "the digest of the index, the batches; the data are not in a record"),
        checked("tokens", "consistency.tokens", "the log's counts of every step"),
        partly("supervised_tokens", "consistency.tokens", "of rows that were reached, the steps' counts"),
        checked("status", "consistency.tokens", "the recipe's longest row"),
        checked("reason", "consistency.tokens", "the recipe's longest row", optional=True),
        unchecked("prompt_digest earlier_prompt_digests.*", "the data are not in a record"),
        checked("learned_turns.*", "consistency.rows", "the row's supervised tokens"),
        unchecked("*", "no check knows it"),
    ),
    "data/traces.jsonl": (checked("*", "consistency.rows", "its recorded digest"),),
    "data/items.jsonl": (checked("*", "consistency.rows", "its recorded digest"),),
    "train/metrics.jsonl": _METRICS,
    "train/events.jsonl": (
        checked("attempt", "consistency.attempts", "the list of attempts"),
        partly("kind", "consistency.steps", "the start, resumes, memory that ran out"),
        partly("time", "consistency.time_and_memory", CLOCK),
        partly("items.*", "consistency.announced",
               "the evaluation; where both are changed only the items' file says so"),
        checked("decoding.*", "consistency.announced", "the recipe, and the evaluation"),
        checked("evaluation", "consistency.announced", "where the evaluation stands", optional=True),
        unchecked("*", "what happened, in the run's words"),
    ),
    "train/training_log.txt": (unchecked("", "what the terminal showed; metrics and events are the record"),),
    "train/machine.jsonl": (
        partly("step time host_memory_used_bytes", "consistency.time_and_memory",
               "steps and times of the run, memory of the machine"),
        unchecked("*", "what the machine said of itself at that moment"),
    ),
    **_CHECKPOINT,
}
_BESIDE: dict[str, tuple[Fields, ...]] = {
    "attempts.jsonl": (
        partly("run config_digest", "consistency.attempts",
               "the runs that are here; of others only the lines that follow"),
        partly("started_at", "consistency.attempts", "the start of its run, the lines that follow"),
        checked("after", "consistency.attempts", "the line before"),
        partly("*", "consistency.attempts", "the digest in the run's events, where it has one"),
    ),
}
_SEAL = (
    checked("schema root unit", "integrity.sealed", "sums and place"),
    checked("status", "consistency.status", "the manifest"),
    checked("made_from", "consistency.made_from", "the run around it"),
)
_RUN["SEAL.json"] = _SEAL
_RUN["SHA256SUMS"] = (checked("", "integrity.sums", "the bytes of every file"),)
for _kind, _files in (("run", _RUN), ("beside", _BESIDE)):
    for _file, _rows in _files.items():
        record_file(_kind, _file, *_rows)
