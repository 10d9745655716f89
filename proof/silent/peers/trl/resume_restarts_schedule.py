"""Six steps in one piece, and stopped after three and resumed."""
from _tiny import logged, say, sft
from transformers import TrainerCallback


class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        control.should_training_stop = control.should_save = state.global_step == 3


rows = [{"prompt": "ab", "completion": chr(97 + number) * (number + 1)} for number in range(12)]
asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
straight = sft(rows, **asked)
straight.train()
stopped = sft(rows, **asked, save_strategy="steps", save_steps=3)
stopped.add_callback(Stop())
stopped.train()
again = sft(rows, **asked)
again.train(resume_from_checkpoint=f"{stopped.args.output_dir}/checkpoint-3")
rates = [[round(x, 9) for x in logged(one, "learning_rate")] for one in (straight, again)]
say("right" if rates[0] == rates[1] else "wrong", f"rates {rates[0][3:]} in one piece, {rates[1][3:]} resumed")
