// What every page does: local times, live rows, a job that is watched, forms that ask first. No library.
"use strict";

/** A recorded UTC time in the reader's own. */
function localTime(text) {
  const when = new Date(text);
  return Number.isNaN(when.getTime()) ? null : when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Seconds as a person says them. */
function durationText(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Path of a run in an address: its slashes stay. */
function runPath(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}

async function json(address, options) {
  const answer = await fetch(address, { ...options, headers: { accept: "application/json" } });
  return answer.ok ? answer.json() : null;
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

/** A row or header of a running run; when it is sealed, the page is read again. */
function watchRun(element) {
  const timer = setInterval(async () => {
    if (document.hidden) return;
    const found = await json(`/api/run/${runPath(element.dataset.live)}`);
    if (!found || found.row.state !== "running") {
      clearInterval(timer);
      location.assign(found ? location.href : location.href.replace(".partial", ""));
      return;
    }
    const row = found.row;
    const bar = element.querySelector("progress");
    if (bar) bar.value = row.steps;
    const left = element.querySelector("[data-left]");
    if (left) left.textContent = `${row.steps} of ${row.planned_steps} steps` + (row.seconds_left == null ? "" : `, ${durationText(row.seconds_left)} left`);
    const loss = element.querySelector("[data-loss]");
    if (loss && row.loss != null) loss.textContent = row.loss.toFixed(4);
  }, 2000);
}

function watchJob(element) {
  if (element.dataset.state !== "running") return;
  const log = document.querySelector("[data-log]");
  const timer = setInterval(async () => {
    const job = await json(`/api/jobs/${element.dataset.job}`);
    if (!job) return;
    if (log && log.textContent !== job.log) {
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
      log.textContent = job.log || "(nothing yet)";
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
    if (job.state !== "running") {
      clearInterval(timer);
      location.reload();
    }
  }, 1000);
}

document.addEventListener("DOMContentLoaded", () => {
  showTimes(document);
  document.querySelectorAll("[data-live]").forEach(watchRun);
  document.querySelectorAll("[data-job]").forEach(watchJob);
  document.querySelectorAll("form[data-confirm]").forEach((form) => {
    form.addEventListener("submit", (event) => {
      if (!window.confirm(form.dataset.confirm)) event.preventDefault();
    });
  });
  document.querySelectorAll("[data-reload]").forEach((element) => {
    setTimeout(() => location.reload(), 1000 * Number(element.dataset.reload));
  });
});
