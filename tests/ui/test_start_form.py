"""The form that starts a training run: a recipe's keys as fields, and nothing typed is lost to an error."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from workings.config.load import load_recipe
from workings.runs.plan import estimate_memory
from workings.ui.number_format import coded
from workings.ui.routes import plan
from workings.ui.routes.start import recipe_fields


def test_fields_are_the_recipe_with_its_help_and_choices() -> None:
    fields = {field["key"]: field for section in recipe_fields("smoke-tiny").values() for field in section}
    assert (fields["training.steps"]["value"], fields["training.steps"]["number"]) == ("2", True)
    assert fields["training.steps"]["help"]
    assert {"fp32", "bf16"} <= set(fields["precision.compute"]["choices"])
    assert fields["precision.compute"]["value"] == load_recipe("smoke-tiny").resolved()["precision"]["compute"]
    # Each of these, written as an override, is the recipe again.
    words = [f"{key}={fields[key]['value']}" for key in (
        "seed", "training.learning_rate", "optimizer.epsilon", "memory.remat", "memory.cpu_optimizations", "mesh.tp")]
    assert load_recipe("smoke-tiny", words).resolved() == load_recipe("smoke-tiny").resolved()


def test_an_error_keeps_the_form(page: TestClient) -> None:
    typed = {"recipe": "quickstart", "out": "mine", "overrides": "training.stepz=4\nseed=3", "smoke": "true"}
    answer = page.post("/start/train", data=typed)
    assert answer.status_code == 422
    assert "training.stepz" in answer.text.partition('role="alert"')[2].partition("</div>")[0]
    form = answer.text.partition('action="/start/train"')[2].partition("</form>")[0]
    assert "<option selected>quickstart</option>" in form
    assert 'name="out" value="mine"' in form
    assert "training.stepz=4\nseed=3</textarea>" in form
    assert 'name="smoke" value="true" checked' in form
    assert page.get("/api/jobs").json() == []
    assert page.post("/api/train", data=typed).status_code == 422


def test_names_that_are_proposed_are_free(page: TestClient, tmp_path: Path) -> None:
    (tmp_path / "runs").rename(tmp_path / "first-run")
    form = page.get("/start").text
    assert 'name="out" value="first-run-2"' in form
    assert 'name="out" value="quickstart"' in form


def test_a_plan_for_no_machine_says_what_to_tick(page: TestClient) -> None:
    answer = page.post("/plan", data={"recipe": "smoke-tiny"})
    assert answer.status_code == 422
    assert "tick one, such as cpu" in answer.text
    # Only pages about runs have the sentence about the folder's runs.
    sealed = "read from the sealed run directories"
    assert [sealed in page.get(address).text for address in ("/", "/plan", "/start")] == [True, False, False]


def test_the_form_shows_the_recipe_that_is_chosen(page: TestClient) -> None:
    steps = load_recipe("quickstart").recipe.training.steps
    assert f'data-key="training.steps" data-default="{steps}"' in page.get("/start?recipe=quickstart").text
    assert page.get("/start?recipe=../none.yaml").status_code == 422


def test_what_the_formula_says_stands_beside_the_form(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(words: list[str], cwd: Path) -> dict[str, object]:
        asked.append(words)
        return {"estimates": [estimate_memory(load_recipe(words[1], words[2:3]), words[4]).to_json()]}
    monkeypatch.setattr(plan, "ask", ask)
    small, large = (page.get("/api/formula", params={
        "recipe": "smoke-tiny", "target": "t4", "overrides": f"batch.micro_batch={rows}"}).json() for rows in (4, 4096))
    assert (small["recipe"], small["target"]) == ("smoke-tiny", "t4")
    assert 0 < small["peak_bytes"] < large["peak_bytes"]
    assert asked[0] == ["plan", "smoke-tiny", "batch.micro_batch=4", "--on", "t4", "--formula"]
    assert page.get("/api/formula?recipe=smoke-tiny&target=nowhere").status_code == 404


def test_help_is_text_with_its_code_marked() -> None:
    assert coded("`steps` <b> or `epochs`") == "<code>steps</code> &lt;b&gt; or <code>epochs</code>"
