"""A sealed run logged to a real MLflow server on loopback, and read back: every parameter, metric and file.

MLflow's server needs other versions of common packages than this project pins, so it is installed into an environment
of its own for the length of this proof.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result

RESULT = ROOT / "proof" / "mlflow_server.json"
EXAMPLE = ROOT / "examples" / "runs" / "quickstart" / "runs.zip"
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(address: str, **body: Any) -> Any:
    """One call of MLflow's REST interface."""
    data = json.dumps(body).encode() if body else None
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address, data=data, headers=headers)  # noqa: S310  our own loopback address
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.loads(answer.read())


def wait_for(address: str, server: "subprocess.Popen[bytes]") -> None:
    """Until the server answers."""
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{address}/health", timeout=2).read()  # noqa: S310
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                raise SystemExit("the MLflow server ended") from None
            time.sleep(0.5)
    raise SystemExit("the MLflow server does not answer")


def check(address: str, logged: str, run: Path) -> dict[str, Any]:
    """Compare what the server has with the record; numbers of things compared, and what differs."""
    api = f"{address}/api/2.0/mlflow"
    found = ask(f"{api}/runs/get?run_id={logged}")["run"]
    lines = [json.loads(line) for line in (run / "train" / "metrics.jsonl").read_text().splitlines()]
    wrong: list[str] = []
    compared = 0
    for key in ("loss", "learning_rate", "grad_norm", "tokens"):
        history = ask(f"{api}/metrics/get-history?run_id={logged}&metric_key=train/{key}&max_results=25000")["metrics"]
        served = {int(point["step"]): point["value"] for point in history}
        for line in lines:
            compared += 1
            if served.get(line["step"]) != line[key]:
                wrong.append(f"train/{key} at step {line['step']}")
    summary = json.loads((run / "eval" / "items" / "eval_summary.json").read_text())
    metrics = {metric["key"]: metric["value"] for metric in found["data"]["metrics"]}
    if metrics["eval/items/overall/accuracy"] != summary["scorecard"]["overall"]["mean"]:
        wrong.append("accuracy")
    tags = {tag["key"]: tag["value"] for tag in found["data"]["tags"]}
    if tags["workings.status"] != "complete" or found["info"]["status"] != "FINISHED":
        wrong.append("status")

    def files(folder: str) -> list[str]:
        answer = ask(f"{api}/artifacts/list?run_id={logged}" + (f"&path={folder}" if folder else ""))
        names = []
        for entry in answer.get("files", []):
            names += files(entry["path"]) if entry["is_dir"] else [entry["path"]]
        return names

    expected = sorted(path.relative_to(run).as_posix() for path in run.rglob("*")
                      if path.is_file() and path.suffix != ".safetensors")
    if sorted(files("")) != expected:
        wrong.append("files")
    return {"metric_values_compared": compared, "parameters": len(found["data"]["params"]), "files": len(expected),
            "differences": len(wrong), "first_differences": wrong[:5]}


def main() -> int:
    """Install, start, log, read back, write the result; 1 where something differs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        python = place / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mlflow>=3"],
                       check=True)
        version = subprocess.run([python, "-c", "import importlib.metadata as m; print(m.version('mlflow'))"],
                                 check=True, capture_output=True, text=True).stdout.strip()
        with zipfile.ZipFile(EXAMPLE) as example:
            example.extractall(place / "example")
        run = next((place / "example").rglob("with-steps/run_manifest.json")).parent
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        server = subprocess.Popen(
            [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{place / 'mlflow.db'}", "--artifacts-destination", place / "artifacts"],
            env=os.environ | QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(address, server)
            command = ["-m", "workings", "runs", "track", str(run), "--mlflow", address, "--json"]
            done = subprocess.run([sys.executable, *command],
                                  env=os.environ | QUIET, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            logged = json.loads(done.stdout.splitlines()[-1])["mlflow_run_id"]
            values = check(address, logged, run)
        finally:
            server.terminate()
            server.wait(60)
    write_result(RESULT, what="A sealed run logged to a real MLflow server and read back.", values=values |
                 {"mlflow_server": version}, command="python -m proof.mlflow_server", packages=["mlflow-skinny"])
    print(json.dumps(values))
    return int(values["differences"] > 0)


if __name__ == "__main__":
    sys.exit(main())
