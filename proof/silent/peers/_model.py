"""A tiny random Llama and a tokenizer of bytes in a folder, for the examples of several trainers."""

import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def model_folder(template, post=None, shape=None, seed=0, **marks):
    """A folder with a model, of this ``shape`` where it is not the usual one, and its tokenizer with special ``marks``."""
    made, alphabet = tempfile.mkdtemp(), sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    base.pre_tokenizer, base.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=base, **({
        "bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>",
        "additional_special_tokens": ["<|im_start|>"]} | marks))
    fast.chat_template, fast.backend_tokenizer.post_processor = template, post or base.post_processor
    fast.save_pretrained(made)
    torch.manual_seed(seed)
    LlamaForCausalLM(LlamaConfig(**({
        "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512} | (shape or {})))).save_pretrained(made)
    return made
