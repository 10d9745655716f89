// What a person sees. Every text of the archive is set as text, never as markup.
const $ = (id) => document.getElementById(id);
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function element(tag, words, name = "") {
  const made = document.createElement(tag);
  made.textContent = words;
  made.className = name;
  return made;
}

function list(id, rows) {
  $(id).replaceChildren(...rows.slice(0, 200).map((words) => element("li", words)), ...(rows.length > 200 ? [element("li", `and ${rows.length - 200} more`)] : []));
  $(id).parentElement.hidden = rows.length === 0;
}

function say(verdict, words) {
  $("verdict").className = verdict;
  $("verdict").textContent = words;
}

function show(file, found) {
  const problems = found.units.flatMap((unit) => unit.problems.map((problem) => `${unit.place || "."}: ${problem}`));
  const unread = found.units.flatMap((unit) => unit.unread.map((name) => `${below(unit.place, name)}: too large for a browser`));
  const wanted = $("expected").value.trim().toLowerCase();
  const anchored = wanted && (wanted === found.root || found.units.some((unit) => unit.root === wanted));
  if (wanted && !anchored) problems.unshift(`the root digest that you gave (${wanted.slice(0, 64)}) is not the one found`);
  const files = found.units.reduce((sum, unit) => sum + unit.hashed, 0);
  const bytes = found.units.reduce((sum, unit) => sum + unit.bytes, 0);
  if (problems.length) say("bad", `FAILED: ${plural(problems.length, "problem")} in ${file.name}`);
  else if (unread.length) say("open", `Not wholly checked: ${plural(unread.length, "file")} of ${file.name} could not be read here`);
  else say("good", `The files of ${file.name} are those that were sealed${anchored ? ", under the root digest that you gave" : ""}`);
  $("summary").textContent = `${plural(files, "file")}, ${plural(bytes, "byte")} and ${plural(found.units.length, "unit")} checked against their sealed digests.`;
  $("root").textContent = found.root || "none: a unit has no sums";
  $("anchor").textContent = anchored ? (wanted === found.root ? "It is the one that you gave." : "The one that you gave is that of one unit below.")
    : wanted ? "It is not the one that you gave." : "Compare it with one that was published elsewhere: changed files can be sealed again, and only this line shows it.";
  $("command").textContent = `workings verify ${/^[\w.+=@-]+$/.test(file.name) ? file.name : "THE_ZIP"}${found.root ? ` --expect-root ${found.root}` : ""}`;
  list("problems", problems);
  list("unread", unread);
  list("elsewhere", found.elsewhere);
  list("loose", found.loose.filter((name) => base(name) !== ATTEMPTS));
  $("units").replaceChildren(...found.units.map((unit) => {
    const row = document.createElement("tr");
    row.append(element("th", unit.place || "."), element("td", unit.kind || "?"), element("td", unit.hashed.toLocaleString("en"), "number"),
      element("td", unit.problems.length ? "FAILED" : unit.unread.length ? "not wholly" : "as sealed", unit.problems.length ? "bad" : unit.unread.length ? "open" : "good"), element("td", unit.root || "none", "digest"));
    row.firstChild.scope = "row";
    return row;
  }));
  $("found").hidden = false;
}

let last = null, asked = 0;

async function check(file) {
  const mine = ++asked;  // of two files dropped one after the other, the later one is shown
  last = null;
  $("found").hidden = true;
  say("open", `Reading ${file.name}…`);
  let done = 0;
  try {
    const found = await verifyZip(file, (bytes) => {
      done += bytes;
      if (mine === asked) say("open", `Reading ${file.name}: ${(done / 2 ** 20).toFixed(0)} MiB hashed…`);
    });
    if (mine !== asked) return;
    last = { file, found };
    show(file, found);
  } catch (error) {
    if (mine !== asked) return;
    say("bad", `FAILED: ${file.name} cannot be read: ${error instanceof Refused ? error.message : String(error).slice(0, 200)}`);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (!globalThis.crypto?.subtle || !globalThis.DecompressionStream || !Array.prototype.toSorted) {
    say("bad", "This browser cannot check: it lacks WebCrypto or DecompressionStream for files. Try a newer one, or `workings verify`.");
    $("file").disabled = true;
    return;
  }
  $("file").addEventListener("change", () => { if ($("file").files.length) check($("file").files[0]); });
  $("expected").addEventListener("input", () => { if (last) show(last.file, last.found); });
  document.addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  document.addEventListener("dragleave", () => $("drop").classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    if (event.dataTransfer.files.length === 1) check(event.dataTransfer.files[0]);
    else say("bad", "Drop one zip.");
  });
});
