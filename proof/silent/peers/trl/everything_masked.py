"""`assistant_only_loss` with a template that has no generation marks."""
from _tiny import logged, say, sft

rows = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}] * 2
try:
    trainer = sft(rows, assistant_only_loss=True)
    trainer.train()
    loss = logged(trainer, "loss")[0]
    batch = trainer.data_collator([trainer.train_dataset[0]])
    learned = int((batch["labels"] != -100).sum())
    say("right" if learned else "wrong", f"{learned} tokens learned a row, loss {loss}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
