"""DPO of Tunix on pairs of token ids, with a copy of the model as the reference."""
import numpy as np
import optax
from _tiny import model
from tunix.sft.dpo.dpo_trainer import DPOTrainer, DPOTrainingConfig, TrainingInput


def dpo(chosen, rejected, count=1, rate=1e-2):
    """Trainer after this many updates on a pair of answers of equal length."""
    ones, ids = np.ones((1, len(chosen)), np.int32), (np.array([row], np.int32) for row in (chosen, rejected))
    pair = TrainingInput(np.array([[5, 7]], np.int32), np.ones((1, 2), np.int32), next(ids), ones, next(ids), ones)
    trainer = DPOTrainer(model(), model(), optax.sgd(rate), DPOTrainingConfig(eval_every_n_steps=99))
    trainer.train([pair] * count)
    return trainer
