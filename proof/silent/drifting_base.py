"""The base drifts: adapters are merged and taken out again in a narrow format for each rollout.

Reported: trl#6688.
"""

from proof.silent._harness import LORA, Found, batch, learned, opened, right_if
from workings.config.training import PrecisionConfig


def check(engine: str) -> Found:
    """After steps, samples and log probabilities in bfloat16 the model below the adapters has the same bits."""
    model = opened(engine, method=LORA, precision=PrecisionConfig(parameters="bf16", compute="bf16"))
    rows, state = batch(learned(5, 9)), model.init(0)
    before = model.log_probs(model.without_adapters(state), rows)
    for seed in range(3):
        model.sample(state, [[5, 9, 3]], max_new_tokens=4, stop_ids=[], temperature=1.0, seeds=[seed])
        state, result = model.step(state, rows, 1e-1)
    after = model.log_probs(model.without_adapters(state), rows)
    same = (before == after).all()
    return right_if(same and result.share_of_weights_changed > 0,
                    f"base log probabilities are equal to the bit after 3 steps and rollouts: {same}")
