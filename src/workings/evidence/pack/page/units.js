// Which sealed folders (units) an archive holds, and which of its files each of them answers for: as `workings verify`.
const [MANIFEST, SUMS, SEAL, PACK, ATTEMPTS] = ["run_manifest.json", "SHA256SUMS", "SEAL.json", "pack.json", "attempts.jsonl"];
const PARTIAL = ".partial";
const DIGEST = /^[0-9a-f]{64}$/, NAME = /^[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,199}$/;
const TENSORS = /^checkpoints\/step_\d{6,12}\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}\.safetensors$/;

const base = (name) => name.slice(name.lastIndexOf("/") + 1);
const parent = (name) => name.slice(0, Math.max(0, name.lastIndexOf("/")));
const below = (place, name) => (place ? `${place}/${name}` : name);
const byName = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/* JSON in the one form that records are written in; another one (keys given twice, say) could mean two things. */
function canonical(data) {
  const sorted = (value) => Array.isArray(value) ? value.map(sorted) : value && typeof value === "object"
    ? Object.fromEntries(Object.keys(value).sort(byName).map((key) => [key, sorted(value[key])])) : value;
  const words = new TextDecoder().decode(data);
  try {
    const value = JSON.parse(words);
    return JSON.stringify(sorted(value)) + "\n" === words ? value : null;
  } catch {
    return null;
  }
}

function parseSeal(data) {
  const seal = canonical(data), none = '{"absent":"made from no other unit"}';
  const keys = seal && typeof seal === "object" ? Object.keys(seal).sort().join() : "";
  const fits = keys === "made_from,root,schema,status,unit" && seal.schema === "seal/1"
    && ["complete", "interrupted", "failed"].includes(seal.status)
    && (DIGEST.test(seal.made_from) || JSON.stringify(seal.made_from) === none);
  return fits ? seal : null;
}

/* Digests by path, or null where the text is not in its one form: sorted, each path once, a newline after each. */
function parseSums(data) {
  const lines = new TextDecoder().decode(data).split("\n");
  const sums = new Map();
  let before = "";
  if (lines.pop() !== "") return null;
  for (const line of lines) {
    const [digest, name] = [line.slice(0, 64), line.slice(66)];
    if (!DIGEST.test(digest) || line.slice(64, 66) !== "  " || !isPlain(name) || byName(before, name) >= 0) return null;
    sums.set(name, digest);
    before = name;
  }
  return sums;
}

const isPlain = (name) => name.split("/").every((part) => NAME.test(part) && !part.endsWith("."));

/* The innermost of these folders that contains a name; null if none does. */
function enclosing(name, places) {
  for (; name; name = parent(name)) if (places.has(name)) return name;
  return places.has("") ? "" : null;
}

/* Where the pack would be if this were a run in one; else a place that no unit has. */
const outer = (place) => (base(parent(place)) === "runs" ? parent(parent(place)) : "/");

function unitOf(relative) {
  const parts = relative.split("/");
  if (parts[0] === "attest") return parts[0];
  return parts[0] === "eval" && parts.length > 1 ? `${parts[0]}/${parts[1]}` : "";
}

/* Entries, with folders that appear only in paths of files. */
function withFolders(entries) {
  const folders = new Map();
  for (const entry of entries) {
    if (entry.kind === "folder") folders.set(entry.name, entry);
    for (let name = parent(entry.name); name; name = parent(name)) if (!folders.has(name)) folders.set(name, { name, kind: "folder" });
  }
  return [...entries.filter((entry) => entry.kind !== "folder"), ...folders.values()].sort((a, b) => byName(a.name, b.name));
}

/* {units, loose}: units by place, each with the entries that it answers for. `seals`: parsed seals by place. */
function findUnits(all, seals) {
  const kind = (place) => seals.get(place)?.unit ?? "";
  const files = new Set(all.filter((entry) => entry.kind === "file").map((entry) => entry.name));
  const marked = all.filter((entry) => [MANIFEST, SEAL, SUMS].includes(base(entry.name))).map((entry) => parent(entry.name));
  const places = new Set(marked.filter((place) => !place.split("/").some((part) => part.endsWith(PARTIAL))));
  const outermost = new Set([...places].filter((place) => place === "" || enclosing(parent(place), places) === null));
  // A seal inside of a sealed folder starts no unit, or files could be hidden with it; runs in a pack are the
  // exception.
  const tops = new Set([...places].filter((place) => outermost.has(place) || (outermost.has(outer(place)) && kind(outer(place)) === "pack")));
  const nests = (place) => !files.has(below(place, SEAL)) || !["eval", "samples", "pack"].includes(kind(place));
  const units = new Map(), loose = [];
  const unit = (place, around) => {
    if (!units.has(place)) units.set(place, { place, around, kind: kind(place), entries: new Map() });
    return units.get(place).entries;
  };
  for (const place of tops) unit(place, null);
  for (const entry of all) {
    const top = enclosing(entry.name, tops);
    if (top === null) loose.push(entry);
    if (top === null || entry.name === top) continue;
    const relative = top ? entry.name.slice(top.length + 1) : entry.name;
    const inner = nests(top) ? unitOf(relative) : "", pack = outer(top);
    if (inner === "attest") {
      // Signatures come after a run's seal, so no sum of the run covers them; a pack is made later and does.
      if (tops.has(pack) && kind(pack) === "pack" && entry.kind !== "folder") unit(pack, null).set(entry.name.slice(pack ? pack.length + 1 : 0), entry);
      else loose.push(entry);
    } else if (!inner || (relative === inner && entry.kind !== "folder")) unit(top, null).set(relative, entry);
    else {
      const entries = unit(below(top, inner), top);
      if (relative !== inner) entries.set(relative.slice(inner.length + 1), entry);
    }
  }
  return { units: [...units.values()].sort((a, b) => byName(a.place, b.place)), loose };
}
