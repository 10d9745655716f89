"""`workings serve`: a run as a server with OpenAI's HTTP interface."""

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from workings.cli import options
from workings.cli.options import as_recorded, given_options, weights_request
from workings.cli.output import say
from workings.errors import RequestError
from workings.hints import pip_install

TOKEN = "WORKINGS_SERVE_TOKEN"
"""Environment variable with the token that clients send as their API key."""


def serve_command(
    model: Annotated[str, typer.Argument(help=options.MODEL_HELP)],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8000,
    template: options.TemplateOption = None,
    engine: options.EngineOption = None,
    precision: options.PrecisionOption = None,
    tokenizer: options.TokenizerOption = None,
    device: options.DeviceOption = None,
) -> None:
    """Serve a run to programs on this machine through OpenAI's HTTP interface, until Ctrl-C.

    Clients send the token in WORKINGS_SERVE_TOKEN, or the printed one, as their API key. For heavy load, export the
    run and serve it with vLLM.
    """
    try:
        from workings.serving.server import make_server
        from workings.ui.loopback import HOST, listen
    except ModuleNotFoundError as error:
        raise RequestError(f"workings serve needs {error.name}", "the libraries of the page",
                           pip_install("ui")) from error
    from workings.runs.open_model import AS_RECORDED, open_model

    loading_options = given_options(template=template, engine=engine, precision=precision, tokenizer=tokenizer)
    # Only for its errors; its settings are those of measurements.
    as_recorded(model, loading_options, f"workings serve {model} --template tokenizer")
    with listen(port) as listener:  # before loading the model, which takes longer
        weights = weights_request(loading_options, device, "any")
        session = open_model(model, weights, device or AS_RECORDED).session
        name = Path(model).resolve().name
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
        url = f"http://{HOST}:{listener.getsockname()[1]}/v1"
        say(f"{name} answers at {url}; stop it with Ctrl-C\n"
            f"  export OPENAI_BASE_URL={url} OPENAI_API_KEY={token}\n"
            f"  as a judge: WORKINGS_JUDGE_KEY={token} workings reward judge --url {url} --model {name} "
            "--items LABELLED.jsonl --out judge.json")
        make_server(session, name, token=token).run(sockets=[listener])
