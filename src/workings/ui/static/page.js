// For every page: local times, live rows and jobs, forms. Without libraries.
"use strict";

/** A recorded UTC time in the browser's time zone. */
function localTime(text) {
  const when = new Date(text);
  return Number.isNaN(when.getTime()) ? null : when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A duration as text. */
function durationText(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A run's name in the path of an address, where slashes stay. */
function runPath(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}

const PATIENCE = 20000;

/** Status and JSON value of an answer; status 0 if there is none in time. */
async function asked(address) {
  try {
    const answer = await fetch(address, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE) });
    return { status: answer.status, value: answer.ok ? await answer.json() : null };
  } catch {
    return { status: 0, value: null };
  }
}

async function json(address) {
  return (await asked(address)).value;
}

/** Repeat `work` after a pause until it returns `false`; after a failure, `null`, the pause is longer. */
function repeat(pause, work) {
  let wait = pause;
  const next = () => setTimeout(async () => {
    const said = document.hidden ? true : await work();
    wait = said === null ? Math.min(2 * wait, 30000) : pause;
    if (said !== false) next();
  }, wait);
  next();
}

function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const text = localTime(element.dateTime);
    if (text) {
      element.title = element.textContent;
      element.textContent = text;
    }
  }
}

/** Update a row or header of a running run; reload the page when its state changes. */
function watchRun(element) {
  const state = element.querySelector(".state").textContent;
  repeat(2000, async () => {
    const { status, value: row } = await asked(`/api/live/${runPath(element.dataset.live)}`);
    if (status !== 200) return null;
    if (!row || row.state !== state || (state !== "running" && !row.phase)) {
      location.reload();
      return false;
    }
    const bar = element.querySelector("progress");
    if (bar) bar.value = row.steps;
    const left = element.querySelector("[data-left]");
    const phase = element.querySelector("[data-phase]");
    if (phase) phase.textContent = row.phase;
    if (left) left.textContent = `${row.steps} of ${row.planned_steps} steps` + (row.seconds_left == null ? "" : `, ${durationText(row.seconds_left)} left`);
    const loss = element.querySelector("[data-loss]");
    if (loss && row.loss != null) loss.textContent = row.loss.toFixed(4);
    return true;
  });
}

function watchJob(element) {
  if (element.dataset.state !== "running") return;
  const log = document.querySelector("[data-log]");
  repeat(1000, async () => {
    const job = await json(`/api/jobs/${element.dataset.job}`);
    if (!job) return null;
    if (log && log.textContent !== job.log) {
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
      log.textContent = job.log || "(nothing yet)";
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
    if (job.state === "running") return true;
    location.reload();
    return false;
  });
}

/** Show what models write to a question, piece by piece; reload the page at the end. */
function watchAnswers(element) {
  let after = 0;
  repeat(200, async () => {
    const news = await json(`/api/jobs/${element.dataset.asked}/pieces?after=${after}`);
    if (!news) return null;
    after = news.end;
    for (const { model, piece } of news.pieces) {
      const place = element.querySelector(`[data-pieces="${model}"]`);
      if (!place) continue;  // the page already has the whole answer
      for (const other of element.querySelectorAll("[data-pieces]:not([hidden])")) other.nextElementSibling.hidden = other !== place;
      place.hidden = false;
      place.append(piece);
    }
    if (news.running) return true;
    location.reload();
    return false;
  });
}

/** Add a button that copies a command or a file's text. */
function addCopyButton(text) {
  const holder = document.createElement("div");
  const button = document.createElement("button");
  holder.className = "copied";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  text.replaceWith(holder);
  holder.append(text, button);
}

/** The keys j and k move through the items of a page and, at its ends, to the next or previous page. */
function watchKeys(items) {
  document.addEventListener("keydown", (event) => {
    const step = { j: 1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const here = items.findIndex((item) => item.contains(document.activeElement) || `#${item.id}` === location.hash);
    const next = items[here < 0 && step < 0 ? -1 : here + step];
    if (next) {
      history.replaceState(null, "", `#${next.id}`);  // the address names the item
      next.focus();
      next.scrollIntoView({ block: "start" });
    } else document.querySelector(`.pages a[rel=${step > 0 ? "next" : "prev"}]`)?.click();
  });
}

/** The estimate of a recipe's memory on a machine, as text. */
async function formulaText(recipe, target, overrides) {
  const { value } = await asked(`/api/formula?${new URLSearchParams({ recipe, target, overrides })}`);
  const size = (bytes) => bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return !value ? "no estimate for this recipe" : `${value.peak_bytes <= value.limit_bytes ? "fits" : "does not fit"}: about ${size(value.peak_bytes)} of ${size(value.limit_bytes)} per device, for the ${value.program}`;
}

/** Keep the fields of a recipe and the form's overrides equal; an override is written for each changed field. */
function watchRecipe(form) {
  const text = form.elements.overrides, fields = [...form.querySelectorAll("[data-key]")];
  const lines = () => text.value.split("\n").map((line) => line.trim()).filter(Boolean);
  const read = () => {
    for (const field of fields) {
      const line = lines().findLast((each) => each.startsWith(`${field.dataset.key}=`));
      field.value = line === undefined ? field.dataset.default : line.slice(field.dataset.key.length + 1);
      field.closest("details").open ||= line !== undefined;
    }
  };
  const write = (field) => {
    const rest = lines().filter((each) => !each.startsWith(`${field.dataset.key}=`));
    if (field.value !== field.dataset.default) rest.push(`${field.dataset.key}=${field.value}`);
    text.value = rest.join("\n");
  };
  const target = form.querySelector("[data-target]"), said = form.querySelector("[data-formula]");
  let waiting = 0, turn = 0;
  const plan = () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const mine = ++turn;
      said.textContent = "…";
      const words = await formulaText(form.elements.recipe.value, target.value, text.value);
      if (mine === turn) said.textContent = words;  // else something was typed since
    }, 700);
  };
  form.addEventListener("input", plan);
  plan();
  fields.forEach((field) => field.addEventListener("input", () => write(field)));
  text.addEventListener("input", read);
  form.elements.recipe.addEventListener("change", () => {
    location.assign(`/start?${new URLSearchParams({ recipe: form.elements.recipe.value, overrides: text.value })}#train`);
  });
  read();
}

/** Select the machine in a recipe's name, else the CPU, until the user selects one. */
function tickMachine(form) {
  const machines = JSON.parse(form.dataset.plan), boxes = [...form.querySelectorAll("[name=target]")];
  const recipe = form.elements.recipe;
  if (boxes.some((box) => box.checked)) return;
  const tick = () => boxes.forEach((box) => { box.checked = box.value === (machines[recipe.value] || "cpu"); });
  recipe.addEventListener("change", tick);
  boxes.forEach((box) => box.addEventListener("change", () => recipe.removeEventListener("change", tick)));
  tick();
}

/** Show estimates for the selected machines. */
function estimateTicked(form) {
  const list = form.querySelector("[data-formulas]");
  let turn = 0;
  const show = async () => {
    const mine = ++turn, targets = [...form.querySelectorAll("[name=target]:checked")].slice(0, 6).map((box) => box.value);
    list.replaceChildren();
    for (const target of targets) {
      const line = document.createElement("li");
      line.textContent = `${target}: …`;
      list.append(line);
      const words = await formulaText(form.elements.recipe.value, target, form.elements.overrides.value);
      if (mine !== turn) return;
      line.textContent = `${target}: ${words}`;
    }
  };
  form.addEventListener("change", show);
  show();
}

/** Apply filters at once; their button is for pages without a script. */
function filterAtOnce(form) {
  for (const button of form.querySelectorAll("button")) button.hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("form[data-recipe-form]").forEach(watchRecipe);
  document.querySelectorAll("form[data-plan]").forEach(tickMachine);
  document.querySelectorAll("form[data-plan]").forEach(estimateTicked);
  const items = [...document.querySelectorAll("article.item[id]")];
  if (items.length) watchKeys(items);
  showTimes(document);
  document.querySelectorAll("pre.command, pre[data-copy]").forEach(addCopyButton);
  document.querySelectorAll("[data-live]").forEach(watchRun);
  document.querySelectorAll("[data-job]").forEach(watchJob);
  document.querySelectorAll("[data-asked]").forEach(watchAnswers);
  document.querySelectorAll("form[role=search]").forEach(filterAtOnce);
  document.querySelectorAll("form[data-confirm]").forEach((form) => {
    form.addEventListener("submit", (event) => {
      if (!window.confirm(form.dataset.confirm)) event.preventDefault();
    });
  });
  document.querySelectorAll("[data-reload]").forEach((element) => {
    setTimeout(() => location.reload(), 1000 * Number(element.dataset.reload));
  });
});
