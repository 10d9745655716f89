"""Six steps in one piece, and stopped after three and resumed: the adapters are equal."""
from _tiny import say, trainer
from transformers import TrainerCallback


class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        control.should_training_stop = control.should_save = state.global_step == 3


asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
straight, stopped, again = (trainer(range(3, 15), **asked, **more) for more in (
    {}, {"save_strategy": "steps", "save_steps": 3}, {}))
straight.train()
stopped.add_callback(Stop())
stopped.train()
again.train(resume_from_checkpoint=f"{stopped.args.output_dir}/checkpoint-3")
pairs = zip(straight.model.parameters(), again.model.parameters())
apart = max((a - b).abs().max().item() for a, b in pairs)
say("right" if apart < 1e-6 else "wrong", f"weights differ by at most {apart:.1e} after six steps")
