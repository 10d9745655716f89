"""Four rows, and the variables of the README's example of two nodes in two processes: updates of an epoch."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _tiny import arguments, say

rows, place = [{"instruction": "ab", "input": "", "output": letter} for letter in "cdef"], Path(tempfile.mkdtemp())
(place / "torchaudio.py").touch()  # as `_tiny` has it
asked = arguments(rows, max_steps=-1, num_train_epochs=1, ddp_backend="gloo")
(place / "recipe.yaml").write_text(json.dumps(asked))
shared = {"FORCE_TORCHRUN": "1", "NNODES": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531", "NPROC_PER_NODE": "1",
          "PYTHONPATH": str(place), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
nodes = [subprocess.Popen(["llamafactory-cli", "train", place / "recipe.yaml"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env=os.environ | shared | {"NODE_RANK": rank}) for rank in "01"]
ended = [(one.communicate()[0][-150:], one.returncode)[1] for one in nodes]
steps = json.loads(Path(asked["output_dir"], "trainer_state.json").read_text())["global_step"]
say("right" if steps == 2 else "wrong", f"{steps} updates of 4 rows on two nodes with one row each; exit codes {ended}")
