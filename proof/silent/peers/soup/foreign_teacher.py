"""Distillation from a folder whose tokenizer gives the same letters other ids, with each way of distilling by tokens."""
from pathlib import Path

from _tiny import LORA, folder, logged, say, trainer, turns

teacher, found = folder(shape={"initializer_range": 0.3}), {}
file = Path(teacher, "tokenizer.json")
file.write_text(file.read_text().replace('"a":', '"@@":', 1).replace('"b":', '"a":', 1).replace('"@@":', '"b":', 1))
for name, more in (("token", {}), ("wasserstein", {"uld_strategy": "wasserstein"})):
    try:
        made = trainer([turns("ab", "ba")] * 2, None, {"lora": LORA, "teacher_model": teacher} | more, task="distill")
        made.train()
        found[name] = f"trained to its end, loss {logged(made, 'loss')[0]}"
    except ValueError as error:
        found[name] = " ".join(str(error).split())[:90]
say("wrong" if "trained" in found["token"] else "refused", "; ".join(f"{name}: {said}" for name, said in found.items()))
