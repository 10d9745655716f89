"""Gemma 3, text: norms on queries and keys, five sliding layers for one global layer, two bases of rotation."""

from workings.models.families.gemma import LICENCE
from workings.models.families.gemma2 import SlidingGemma
from workings.models.family import NEEDED

FAMILY = SlidingGemma(
    name="gemma3", model_type="gemma3_text", architecture="Gemma3ForCausalLM", ties_by_default=True, template="gemma",
    licence=LICENCE, local_rotation=True, needed=(*NEEDED, "sliding_window"),
    # transformers' defaults of the text part: published configs leave out what equals them.
    multimodal={"gemma3": {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                           "max_position_embeddings": 131_072, "model_type": "gemma3_text"}},
    switches={"post_norms": True, "qk_norm": True, "rope_theta": 1_000_000.0, "local_rope_theta": 10_000.0,
              "sliding_window": 512, "sliding_pattern": 6})
