"""Two of four completions are cut off and left out: the loss of the other two, with the usual loss and with `grpo`."""
from _grpo import changed, grpo, spread
from _tiny import logged, say


def rollout(prompts, trainer):
    ids = [[97 + number, 98, 99, 100] + [257] * (number < 2) for number in range(len(prompts))]  # 257 is the stop token
    return {"prompt_ids": [[97, 98]] * len(ids), "completion_ids": ids, "logprobs": [[0.0] * len(one) for one in ids]}


found = {}
for loss in ("dapo", "grpo"):
    trainer = grpo(spread, rollout=rollout, loss_type=loss, mask_truncated_completions=True)
    kept = changed(trainer, lambda output: output)
    trainer.train()
    # Ratios are 1, and both have five tokens: the loss is minus the mean of the advantages that count.
    counted = kept[0]["advantages"][kept[0]["completion_mask"].any(1)]
    found[loss] = round(logged(trainer, "loss")[0], 4), round(-counted.mean().item(), 4)
wrong = [name for name, (loss, other) in found.items() if abs(loss - other) > 2e-3]
say("wrong" if wrong else "right", "; ".join(f"loss_type {name}: loss {loss}, of the two that count {other}"
                                             for name, (loss, other) in found.items()))
