"""Recipe section `data`: the training data and how they become rows of tokens."""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from workings.config.families import TEMPLATES
from workings.config.section import Section, refused

# pydantic builds the choice from a data file at run time, which a type checker cannot follow.
if TYPE_CHECKING:
    TemplateName = str
else:
    TemplateName = Literal[tuple(TEMPLATES)]


class DataConfig(Section):
    """Traces and the way they become rows of tokens with a loss mask."""

    traces: str
    """Path of the traces (JSON lines, or any format of `workings data import`), relative to the recipe's
    file, or an object's address (`gs://…`, `s3://…`)."""
    template: TemplateName = "gemma"
    """Chat turns around prompt and answer: those of Gemma 1 to 3, of Gemma 4, the tokenizer's own, or none."""
    reasoning: Literal["tags", "think", "channel", "hashes", "answer_only"] = "tags"
    """Form of steps and answer: `<reasoning>…</reasoning><answer>…</answer>`, `<think>…</think>`, Gemma 4's
    thinking (`<|channel>thought…<channel|>`, asked for by `<|think|>`), `#### answer`, or only the answer."""
    learn: Literal["last", "all"] = "last"
    """Assistant turns that are trained on: the last one, or all (`history` included). Other turns never are."""
    max_length: int = Field(ge=8)
    """Longest row, in tokens."""
    over_length: Literal["error", "drop", "split"] = "error"
    """Action for a trace whose row is longer than `max_length`: refuse to start, leave it out and list it, or split
    a raw text into several rows (any other trace is refused)."""
    # Not strict, because YAML and JSON give a list where a tuple is declared.
    buckets: Literal["auto"] | Annotated[tuple[int, ...], Field(strict=False)] = "auto"
    """Row lengths, in tokens, to which batches are padded: at most eight that suit the data (`auto`), so that rows of
    similar length share a batch; those of a list; `[]`: every batch is padded to `max_length`."""
    packing: Literal["none", "best_fit", "first_fit"] = "none"
    """Whether several rows share one sequence of `max_length` tokens (attention stays within a row), and which: longest
    first into the fullest sequence with room, which pads least, or in the epoch's order into the first one."""

    @property
    def chooses_buckets(self) -> bool:
        """Whether the lengths of batches are chosen from those of the rows."""
        return self.buckets == "auto" and self.packing == "none"

    @property
    def named_buckets(self) -> tuple[int, ...]:
        """The lengths that the recipe names; empty if they are chosen."""
        return () if self.buckets == "auto" else self.buckets

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Self:
        buckets, longest = self.named_buckets, self.max_length
        if list(buckets) != sorted(set(buckets)) or any(not 1 <= length <= longest for length in buckets):
            raise ValueError(f"buckets {list(buckets)} must ascend from 1 at least to max_length ({longest}) at most")
        # The tokenizer's own template is checked when it is read.
        if self.reasoning == "channel" and self.template not in ("gemma4", "tokenizer"):
            raise refused(f"data.reasoning: channel with data.template: {self.template}",
                          "template gemma4, or tokenizer if the model's template is Gemma 4's",
                          "data.template=gemma4, or data.reasoning=think")
        # `[]` is allowed, so that an override can remove a recipe's buckets.
        if self.packing != "none" and buckets:
            raise refused(f"data.buckets: {list(buckets)} with data.packing: {self.packing}",
                          f"no `data.buckets`: packing fills sequences of max_length ({longest})",
                          "data.buckets=[], or data.packing=none")
        return self
