// A zip, read so strictly that no two programs can see different files in it: every byte belongs to one entry, to the
// table of contents or to the end record, and both headers of an entry agree. Nothing is believed before it is bounded.
const MAX_ENTRIES = 100000;          // files and folders
const MAX_DIRECTORY = 32 * 2 ** 20;  // bytes of the table of contents
const MAX_FILE = 2 ** 30;            // bytes of one file: WebCrypto digests a file only as a whole, in memory
const SMALL = 2 ** 20, MAX_RATIO = 200;
const MARK16 = 0xffff, MARK32 = 0xffffffff;

class Refused extends Error {}

function refuse(unless, words) {
  if (!unless) throw new Refused(words);
}

async function view(file, start, length) {
  refuse(start >= 0 && length >= 0 && start + length <= file.size, "a record that leads out of the archive");
  return new DataView(await file.slice(start, start + length).arrayBuffer());
}

const u16 = (data, at) => data.getUint16(at, true);
const u32 = (data, at) => data.getUint32(at, true);
function u64(data, at) {
  const value = data.getBigUint64(at, true);
  refuse(value <= BigInt(Number.MAX_SAFE_INTEGER), "a size that no archive has");
  return Number(value);
}

function text(data, at, length) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(data.buffer, data.byteOffset + at, length));
  } catch {
    throw new Refused("a name that is not UTF-8");
  }
}

/* Position of the table of contents: {count, start, end}. The end record has to be the last 22 bytes. */
async function findDirectory(file) {
  refuse(file.size >= 22, "not a zip: too short");
  const end = await view(file, file.size - 22, 22);
  refuse(u32(end, 0) === 0x06054b50, "not a zip, or bytes after its end record");
  refuse(u16(end, 20) === 0, "a comment after the end record");
  refuse(u16(end, 4) === 0 && u16(end, 6) === 0, "one of several disks");
  const small = [u16(end, 8), u16(end, 10), u32(end, 12), u32(end, 16)];
  let large = small, behind = file.size - 22;
  const locator = file.size >= 42 ? await view(file, file.size - 42, 20) : null;
  if (locator && u32(locator, 0) === 0x07064b50) {
    behind = u64(locator, 8);
    refuse(u32(locator, 4) === 0 && u32(locator, 16) === 1 && behind + 56 === file.size - 42, "a large-archive record out of place");
    const record = await view(file, behind, 56);
    refuse(u32(record, 0) === 0x06064b50 && u64(record, 4) === 44, "no large-archive record where one should be");
    large = [24, 32, 40, 48].map((at) => u64(record, at));
  }
  const marks = [MARK16, MARK16, MARK32, MARK32];
  refuse(small.every((value, k) => value === large[k] || (behind !== file.size - 22 && value === marks[k])), "two end records that contradict each other");
  const [here, count, bytes, start] = large;
  refuse(here === count, "one of several disks");
  refuse(bytes <= MAX_DIRECTORY && count <= MAX_ENTRIES, "a table of contents that is too large");
  refuse(start + bytes === behind, "a contradictory end record");
  return { count, start, end: behind };
}

/* Sizes of an entry: its 32 bits, or where they are marked, the fields of the large-archive extra. */
function largeSizes(data, at, length, sizes) {
  const marked = sizes.map((value) => value === MARK32);
  if (!marked.some(Boolean)) return sizes;
  for (let p = at; p + 4 <= at + length; p += 4 + u16(data, p + 2)) {
    if (u16(data, p) !== 1) continue;
    let field = p + 4;
    const end = field + u16(data, p + 2);
    refuse(end <= at + length, "an extra field that leads out of its header");
    return sizes.map((value, k) => {
      if (!marked[k]) return value;
      refuse(field + 8 <= end, "a large-archive field that is cut off");
      field += 8;
      return u64(data, field - 8);
    });
  }
  throw new Refused("a large file without its sizes");
}

/* Every entry: {name, kind, size, packed, method, crc, at, body}. */
async function readEntries(file) {
  const directory = await findDirectory(file);
  const data = await view(file, directory.start, directory.end - directory.start);
  const entries = [], names = new Set();
  let p = 0;
  for (let k = 0; k < directory.count; k++) {
    refuse(p + 46 <= data.byteLength && u32(data, p) === 0x02014b50, "a table of contents that ends early");
    const [nameBytes, extraBytes, commentBytes] = [u16(data, p + 28), u16(data, p + 30), u16(data, p + 32)];
    const after = p + 46 + nameBytes + extraBytes + commentBytes;
    refuse(after <= data.byteLength, "a table of contents that ends early");
    const whole = text(data, p + 46, nameBytes), name = whole.replace(/\/$/, "");
    const [size, packed, at] = largeSizes(data, p + 46 + nameBytes, extraBytes, [u32(data, p + 24), u32(data, p + 20), u32(data, p + 42)]);
    const mode = u16(data, p + 40) & 0xf000, folder = whole.endsWith("/");
    const entry = { name, whole, size, packed, at, flags: u16(data, p + 8), method: u16(data, p + 10), crc: u32(data, p + 16),
                    kind: folder ? "folder" : mode === 0 || mode === 0x8000 ? "file" : "other" };
    refuse(u16(data, p + 34) === 0, "one of several disks");
    checkEntry(entry, names);
    entries.push(entry);
    p = after;
  }
  refuse(p === data.byteLength, "more in the table of contents than the end record claims");
  await placeBodies(file, entries, directory.start);
  return entries;
}

function checkEntry(entry, names) {
  const { name } = entry;
  refuse(name && name.length <= 1024 && name.split("/").length <= 32, `${name.slice(0, 100)}: a path too long or empty`);
  refuse(!name.startsWith("/") && !/[\\:\0]/.test(name) && !name.split("/").includes(".."), `${name}: leads out of the archive`);
  refuse(!names.has(name), `${name}: is in the zip twice`);
  names.add(name);
  refuse(!(entry.flags & 0x2041), `${name}: encrypted`);
  refuse(entry.method === 0 || entry.method === 8, `${name}: compressed by a method other than deflate`);
  refuse(entry.method === 8 || entry.packed === entry.size, `${name}: stored with two different sizes`);
  refuse(entry.kind !== "folder" || (entry.size === 0 && entry.packed <= 2), `${name}: a folder with contents`);
  refuse(entry.size <= SMALL || entry.size <= MAX_RATIO * Math.max(1, entry.packed), `${name}: expands more than ${MAX_RATIO}-fold`);
}

/* Compare each local header with the table of contents; entries have to follow each other without a gap. */
async function placeBodies(file, entries, end) {
  let position = 0, described = false;
  for (const entry of entries.toSorted((a, b) => a.at - b.at)) {
    checkGap(entry.at - position, described, entry.name);
    const nameBytes = new TextEncoder().encode(entry.whole).length;
    const head = await view(file, entry.at, 30 + nameBytes);
    const same = u32(head, 0) === 0x04034b50 && u16(head, 6) === entry.flags && u16(head, 8) === entry.method && u16(head, 26) === nameBytes;
    refuse(same && text(head, 30, nameBytes) === entry.whole, `${entry.name}: its header is not the one in the table of contents`);
    const extra = await view(file, entry.at + 30 + nameBytes, u16(head, 28));
    described = (entry.flags & 8) !== 0;  // its sizes may follow it instead
    const [size, packed] = largeSizes(extra, 0, extra.byteLength, [u32(head, 22), u32(head, 18)]);
    const later = described && size === 0 && packed === 0 && u32(head, 14) === 0;
    refuse(later || (size === entry.size && packed === entry.packed && u32(head, 14) === entry.crc), `${entry.name}: two headers with different sizes`);
    entry.body = entry.at + 30 + nameBytes + extra.byteLength;
    position = entry.body + entry.packed;
    refuse(position <= end, `${entry.name}: claims more bytes than the archive has`);
  }
  checkGap(end - position, described, "the table of contents");
}

function checkGap(bytes, described, before) {
  refuse(bytes >= 0, `${before}: overlaps the previous entry`);
  refuse(bytes === 0 || (described && [12, 16, 20, 24].includes(bytes)), `${bytes} bytes before ${before} belong to no file`);
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

/* The bytes of a file; exactly as many as were claimed, with the claimed checksum. */
async function unpack(file, entry) {
  refuse(entry.kind === "file", `${entry.name}: a link or a special file`);
  refuse(entry.size <= MAX_FILE, `${entry.name}: larger than ${MAX_FILE / 2 ** 20} MiB`);
  const body = file.slice(entry.body, entry.body + entry.packed);
  const bytes = entry.method === 0 ? new Uint8Array(await body.arrayBuffer()) : await inflate(body, entry);
  let crc = -1;
  for (let k = 0; k < bytes.length; k++) crc = CRC_TABLE[(crc ^ bytes[k]) & 255] ^ (crc >>> 8);
  refuse(bytes.length === entry.size && (~crc >>> 0) === entry.crc, `${entry.name}: its bytes are not those that the zip was made of`);
  return bytes;
}

async function inflate(body, entry) {
  const bytes = new Uint8Array(entry.size);
  let filled = 0;
  try {
    const reader = body.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (filled + part.value.length > entry.size) {
        await reader.cancel();
        throw new Refused(`${entry.name}: more bytes than it claims`);
      }
      bytes.set(part.value, filled);
      filled += part.value.length;
    }
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(`${entry.name}: broken compression`);
  }
  refuse(filled === entry.size, `${entry.name}: fewer bytes than it claims`);
  return bytes;
}
