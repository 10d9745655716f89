"""Distillation from the student itself, and from another model."""
import tempfile

import torch
from _tiny import USUAL, logged, model, say, tokenizer
from datasets import Dataset
from trl import DistillationConfig, DistillationTrainer

norms = []
for other in (False, True):
    teacher = model()
    if other:
        torch.manual_seed(7)
        torch.nn.init.normal_(teacher.lm_head.weight.data, std=0.3)
    trainer = DistillationTrainer(model(), teacher, DistillationConfig(tempfile.mkdtemp(), max_completion_length=4, **USUAL),
                                  Dataset.from_list([{"prompt": "ab"}] * 8), processing_class=tokenizer())
    trainer.train()
    norms.append(logged(trainer, "grad_norm")[0])
say("right" if norms[1] > 10 * norms[0] else "wrong",
    f"gradient norm {norms[0]:.1e} under itself, {norms[1]:.2f} under another teacher")
