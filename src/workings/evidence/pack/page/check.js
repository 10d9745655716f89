// Integrity: every unit's files are exactly those that were sealed, and a pack holds exactly the units that it lists.
const MAX_SEAL = 2 ** 16, MAX_TEXT = 64 * 2 ** 20;

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/* What an archive holds: {root, units, elsewhere, loose}. Throws `Refused` for one that cannot be read safely. */
async function verifyZip(file, progress) {
  const all = withFolders(await readEntries(file));
  const seals = new Map();
  for (const entry of all) {
    if (entry.kind === "file" && base(entry.name) === SEAL && entry.size <= MAX_SEAL) seals.set(parent(entry.name), parseSeal(await unpack(file, entry)));
  }
  const { units, loose } = findUnits(all, seals);
  refuse(units.length, "no sealed run in it");
  for (const unit of units) await readSums(file, unit);
  const root = await rootOver(units);
  const elsewhere = await checkPacks(file, units);
  const filled = filledFolders(all);
  for (const unit of units) {
    checkNames(unit, filled);
    checkSeal(unit, seals.get(unit.place) ?? null);
    await checkFiles(file, unit, progress);
  }
  return { root, units, elsewhere, loose: loose.filter((entry) => entry.kind !== "folder").map((entry) => entry.name) };
}

async function readSums(file, unit) {
  Object.assign(unit, { problems: [], unread: [], bytes: 0, hashed: 0, elsewhere: new Map(), sums: null, root: "" });
  const entry = unit.entries.get(SUMS);
  if (entry?.kind !== "file" || entry.size > MAX_TEXT) return;
  const data = await unpack(file, entry);
  unit.root = await sha256(data);
  unit.sums = parseSums(data);
}

/* One digest over all: a pack's or a single unit's own root, else that of the lines `root  place` of all units. */
async function rootOver(units) {
  if (units.length === 1 || (units[0].kind === "pack" && units[0].place === "")) return units[0].root;
  if (units.some((unit) => !unit.root)) return "";
  return sha256(new TextEncoder().encode(units.map((unit) => `${unit.root}  ${unit.place || "."}\n`).join("")));
}

/* Names of the folders that hold a file, at any depth. */
function filledFolders(all) {
  const filled = new Set();
  for (const entry of all) if (entry.kind !== "folder") for (let name = parent(entry.name); name && !filled.has(name); name = parent(name)) filled.add(name);
  return filled;
}

function checkNames(unit, filled) {
  const seen = new Map();
  for (const [name, entry] of unit.entries) {
    if (entry.kind === "other") unit.problems.push(`${name}: a link or a special file`);
    if (entry.kind === "folder" && !filled.has(entry.name)) unit.problems.push(`${name}: an empty folder`);
    if (!isPlain(name)) unit.problems.push(`${name}: not a name that a record may hold`);
    const alike = seen.get(name.toLowerCase());
    if (alike !== undefined) unit.problems.push(`${alike} and ${name} differ only in upper and lower case`);
    seen.set(name.toLowerCase(), name);
  }
}

function checkSeal(unit, seal) {
  const missing = [SUMS, SEAL].filter((name) => unit.entries.get(name)?.kind !== "file");
  unit.problems.push(...missing.map((name) => `${name} is missing`));
  if (missing.length) return;
  if (!unit.sums) unit.problems.push(`${SUMS} is not in its one form`);
  if (!seal) { unit.problems.push(`${SEAL} is not in its one form`); return; }
  if (seal.root !== unit.root) unit.problems.push(`${SEAL} names root ${String(seal.root).slice(0, 16)}…, ${SUMS} has ${unit.root.slice(0, 16)}…`);
  const expected = unit.around !== null ? unit.place.slice(unit.around ? unit.around.length + 1 : 0).split("/")[0]
    : unit.entries.get(MANIFEST)?.kind === "file" || seal.unit === "run" ? "run" : seal.unit;
  if (seal.unit !== expected) unit.problems.push(`${SEAL} says ${String(seal.unit).slice(0, 20)}, its place and files say ${expected}`);
}

async function checkFiles(file, unit, progress) {
  const sums = unit.sums ?? new Map();
  for (const [name, entry] of unit.entries) {
    if (entry.kind !== "folder" && ![SUMS, SEAL].includes(name) && !sums.has(name)) unit.problems.push(`${name} is in no sums`);
  }
  for (const [name, expected] of sums) {
    const entry = unit.entries.get(name);
    if (entry?.kind !== "file") {
      if (!unit.elsewhere.has(name)) unit.problems.push(`${name} is missing`);
    } else if (entry.size > MAX_FILE) unit.unread.push(name);
    else await checkBytes(file, unit, name, entry, expected, progress);
  }
}

async function checkBytes(file, unit, name, entry, expected, progress) {
  try {
    if (await sha256(await unpack(file, entry)) !== expected) unit.problems.push(`${name}: its bytes are not those that were sealed`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    unit.problems.push(error.message);
  }
  unit.hashed += 1;
  unit.bytes += entry.size;
  progress(entry.size);
}

/* Units and digests that packs list, against those that are here; returns the files that are named by digest only. */
async function checkPacks(file, units) {
  const elsewhere = [];
  for (const pack of units.filter((unit) => unit.kind === "pack")) {
    const entry = pack.entries.get(PACK);
    const value = entry?.kind === "file" && entry.size <= MAX_TEXT ? canonical(await unpack(file, entry)) : null;
    if (!Array.isArray(value?.units) || !Array.isArray(value?.by_digest)) { pack.problems.push(`${PACK} is missing or not in its one form`); continue; }
    const relative = (unit) => unit.place.slice(pack.place ? pack.place.length + 1 : 0);
    const here = new Map(units.filter((unit) => unit !== pack && unit.place.startsWith(below(pack.place, ""))).map((unit) => [relative(unit), unit]));
    const listed = new Map(value.units.map((row) => [String(row?.place), String(row?.root)]));
    for (const [place, root] of listed) {
      if (!here.has(place)) pack.problems.push(`${place} is listed and not here`);
      else if (here.get(place).root !== root) pack.problems.push(`${place} has another root than the one listed`);
    }
    for (const place of here.keys()) if (!listed.has(place)) pack.problems.push(`${place} is here and not listed`);
    for (const name of pack.entries.keys()) if (name.includes("/") && [SEAL, SUMS, MANIFEST].includes(base(name))) pack.problems.push(`${name}: a unit that is not allowed here`);
    for (const row of value.by_digest) elsewhere.push(nameElsewhere(pack, here.get(row?.place), row));
  }
  return elsewhere.filter(Boolean);
}

function nameElsewhere(pack, run, row) {
  // The run's own sums decide, not the pack's list; and only a checkpoint's tensors may be elsewhere.
  const name = `${row?.place}/${row?.file}`;
  if (run && TENSORS.test(row.file) && !run.entries.has(row.file) && run.sums?.get(row.file) === row.sha256) {
    run.elsewhere.set(row.file, row.sha256);
    return name;
  }
  pack.problems.push(`${name}: may not be named by digest here`);
  return "";
}
