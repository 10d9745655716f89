"""DPO's rows of text with a tokenizer without padding, which Tunix pads with the end of text: the stop token counts."""
from _tiny import say
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from tunix.generate.tokenizer_adapter import TokenizerAdapter
from tunix.sft.dpo.dpo_trainer import process_dpo_record


def counted(**padding):
    """Tokens of the answer that count: the word and its stop token are two, and Tunix puts BOS before them."""
    base = Tokenizer(models.WordLevel({"<eos>": 0, "yes": 1, "no": 2, "<s>": 3, "<pad>": 4}, unk_token="no"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens = PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<s>", eos_token="<eos>", **padding)
    record = {"prompts": "no", "chosen_responses": "yes <eos>", "rejected_responses": "no <eos>"}
    return int(process_dpo_record(record, TokenizerAdapter(tokens), 4, 8).chosen_mask.sum())


counts = counted(pad_token="<pad>"), counted()
say("right" if counts[0] == counts[1] else "wrong", f"{counts[0]} tokens of an answer and its stop token count, {counts[1]} with a "
    "tokenizer without padding")
