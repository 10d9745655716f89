"""Models of no family of this package (`model.verified: false`): the class that transformers has for them, as it is.

No remote code is run: a class is taken only where transformers itself has it. What a class may do that this engine's
attention, loss and generation do not expect is looked for by `workings.engines.torch.mask_check`.
"""

from collections.abc import Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from workings.errors import RequestError
from workings.models.shape import ModelShape

LOGIT_FACTOR = "workings_logit_factor"
"""Attribute of a model: hidden states are multiplied by it before they meet the head."""


def unverified_config(shape: ModelShape, values: Mapping[str, Any]) -> Any:
    """The configuration of transformers' class.

    Args:
        shape: of the model.
        values: content of its ``config.json``, with what this engine changes in it.

    Raises:
        RequestError: transformers itself has no causal class for the model, or refuses its settings.
    """
    if shape.family not in CONFIG_MAPPING or shape.family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise RequestError(f"model_type: {shape.family} has no class for model.verified: false",
                           "a causal model whose class transformers itself has; code that comes with a model "
                           "(auto_map in its config.json) is never run", "another model.id, or a newer transformers")
    kind = CONFIG_MAPPING[shape.family]
    # transformers writes infinities as objects, and turns them back where it reads a file.
    try:
        return kind.from_dict(kind._decode_special_floats(dict(values)))
    except (StrictDataclassError, TypeError, ValueError, KeyError, AttributeError) as error:
        what = " ".join(str(error).split())[:300]
        raise RequestError(f"transformers refuses config.json: {what}",
                           f"settings of a {shape.family} model", "download the directory again, whole") from None


def prepare_model(model: PreTrainedModel) -> None:
    """Checks and settings of a model of an unverified class for this engine.

    Raises:
        RequestError: a head with a bias, or tensors of its files that no optimizer trains.
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    config = model.config
    # Granite divides its logits, Cohere multiplies them; both leave it to the model's forward, which is not called.
    factor = 1.0 / getattr(config, "logits_scaling", 1.0) * (getattr(config, "logit_scale", None) or 1.0)
    setattr(model, LOGIT_FACTOR, float(factor))
    head = model.get_output_embeddings()
    if getattr(head, "bias", None) is not None:
        raise RequestError(f"the head of a {config.model_type} model has a bias",
                           "a head without one: the loss is computed from hidden states and the head's matrix", "")
    buffers = {*model.state_dict()} - {name for name, _ in model.named_parameters(remove_duplicate=False)}
    if buffers:
        raise RequestError(f"a {config.model_type} model has {sorted(buffers)[0]}, stored and not trained",
                           "a model whose stored tensors are all parameters", "")
