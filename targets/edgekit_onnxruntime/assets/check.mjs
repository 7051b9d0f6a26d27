// Runs a bundle's golden samples with onnxruntime-web and compares the outputs with the golden ones.
// Ships in bundles for the web; needs onnxruntime-web (or onnxruntime-node), nothing of EdgeKit. check.html beside it is
// its page.

const TYPES = {
  '<f4': ['float32', Float32Array],
  '<f8': ['float64', Float64Array],
  '<f2': ['float16', globalThis.Float16Array ?? Uint16Array],
  '|i1': ['int8', Int8Array],
  '|u1': ['uint8', Uint8Array],
  '<i2': ['int16', Int16Array],
  '<u2': ['uint16', Uint16Array],
  '<i4': ['int32', Int32Array],
  '<u4': ['uint32', Uint32Array],
  '<i8': ['int64', BigInt64Array],
  '<u8': ['uint64', BigUint64Array],
  '|b1': ['bool', Uint8Array],
};

/**
 * Reads an array in NumPy's .npy format (versions 1 to 3).
 * @param {ArrayBuffer} buffer The file.
 * @returns {{type: string, data: ArrayLike, dims: number[]}} Element type as onnxruntime-web calls it, elements (texts
 *     are strings; float16 is a Uint16Array of its bits where JavaScript has no Float16Array), shape.
 */
export function parseNpy(buffer) {
  const view = new DataView(buffer);
  const longHeader = view.getUint8(6) > 1;
  const start = longHeader ? 12 : 10;
  const length = longHeader ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder().decode(new Uint8Array(buffer, start, length));
  const descr = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const places = /^<U(\d+)$/.exec(descr)?.[1];
  const [type, Elements] = places === undefined ? TYPES[descr] ?? [] : ['string', Uint32Array];
  if (!Elements || shape === undefined || /'fortran_order':\s*True/.test(header)) {
    throw new Error(`this check cannot read a .npy file with the header ${header.trim()}`);
  }
  const dims = shape.split(',').filter((size) => size.trim()).map(Number);
  const elements = new Elements(buffer.slice(start + length));
  if (places === undefined) return { type, data: elements, dims };
  const count = dims.reduce((product, size) => product * size, 1);
  return { type, data: Array.from({ length: count }, (_, index) => textAt(elements, index, Number(places))), dims };
}

/** A text of an array of texts of equal length, each a code point a place, zeros behind its end. */
function textAt(points, index, places) {
  const own = points.subarray(index * places, (index + 1) * places);
  const end = own.findLastIndex((point) => point !== 0) + 1;
  return Array.from(own.subarray(0, end), (point) => String.fromCodePoint(point)).join('');
}

/** The numbers of a tensor: those of float16 may come as their bits. */
function numbersOf({ type, data }) {
  return type === 'float16' && data instanceof Uint16Array ? Float32Array.from(data, halfOf) : data;
}

/** The number whose bits in IEEE 754's half precision these are. */
function halfOf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** Decibels of a golden output's energy over the error's energy. */
function decibels(signal, noise) {
  if (noise === 0) return Infinity;
  return signal > 0 ? 10 * Math.log10(signal / noise) : -Infinity;
}

/** How far one output is from the golden one, over all samples. */
class OutputTally {
  constructor({ name, floor_db: floorDb, max_mismatch: maxMismatch }) {
    Object.assign(this, { name, floorDb, maxMismatch, signal: 0, noise: 0, maxAbsError: 0, unequal: 0, elements: 0 });
    this.problem = '';
  }

  add(golden, actual) {
    if (String(golden.dims) !== String(actual.dims)) {
      this.problem = `shape [${actual.dims}] instead of [${golden.dims}]`;
      return;
    }
    const [wanted, given] = [numbersOf(golden), numbersOf(actual)];
    this.elements += wanted.length;
    for (let i = 0; i < wanted.length; i += 1) {
      const want = wanted[i];
      const got = given[i];
      const same = want === got || (want !== want && got !== got); // NaN equals NaN
      if (this.floorDb === null) {
        if (!same) this.unequal += 1;
      } else if (Number.isFinite(want) && Number.isFinite(got)) {
        this.signal += want * want;
        this.noise += (got - want) ** 2;
        this.maxAbsError = Math.max(this.maxAbsError, Math.abs(got - want));
      } else if (!same) {
        this.unequal += 1;
        this.problem = 'infinite or NaN on one side only';
      }
    }
  }

  get record() {
    const sqnr = decibels(this.signal, this.noise);
    const mismatch = this.elements ? this.unequal / this.elements : 0;
    const near = this.floorDb === null ? this.maxMismatch === null || mismatch <= this.maxMismatch : sqnr >= this.floorDb;
    return {
      name: this.name,
      passed: near && !this.problem,
      problem: this.problem,
      max_abs_error: this.maxAbsError,
      sqnr_db: this.floorDb === null ? null : Number.isFinite(sqnr) ? sqnr : String(sqnr).replace('Infinity', 'inf'),
      mismatch,
      floor_db: this.floorDb,
      max_mismatch: this.maxMismatch,
    };
  }
}

/** A file of a bundle. Node.js reads those of its own machine too, which its fetch() does not. */
async function fetched(folder, name) {
  const url = new URL(name, folder);
  if (url.protocol === 'file:' && globalThis.process?.versions?.node) {
    const files = 'node:fs/promises'; // no literal in import(): bundlers for browsers would look for it
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ files);
    return new Response(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

/** What URLs are relative to: the page's address, or a worker's script; undefined in Node.js. */
function ownAddress() {
  if (globalThis.document) return document.baseURI;
  const { protocol, origin, href } = globalThis.location ?? {};
  return protocol === 'blob:' ? origin : href; // nothing is relative to a blob
}

/**
 * A bundle's manifest; in the folder of a further build, that build's as if the bundle held nothing else.
 * @param {string | URL} folder URL of the bundle's folder, or of a further build's in it.
 * @returns {Promise<{root: URL, manifest: object}>} The bundle's own folder, to which the manifest's paths are relative.
 */
async function manifestIn(folder) {
  const own = new URL(String(folder).endsWith('/') ? folder : `${folder}/`, ownAddress());
  let missing;
  try {
    return { root: own, manifest: await (await fetched(own, 'manifest.json')).json() };
  } catch (error) {
    missing = error;
  }
  const root = new URL('../', own);
  const profile = decodeURIComponent(own.pathname.split('/').at(-2));
  let manifest;
  try {
    manifest = await (await fetched(root, 'manifest.json')).json();
  } catch {
    throw missing;
  }
  const build = manifest.also?.find(({ target }) => target.profile === profile);
  if (!build) throw missing;
  return { root, manifest: { ...manifest, ...build, golden: { ...manifest.golden, ...build.golden } } };
}

/**
 * A file of a bundle, as it was packaged.
 * @param {URL} root The bundle's folder.
 * @param {object} manifest Has the SHA-256 of every file.
 * @param {string} path The file, relative to the bundle's folder.
 * @returns {Promise<ArrayBuffer>}
 */
async function packaged(root, manifest, path) {
  const record = manifest.files.find((file) => file.path === path);
  if (!record) throw new Error(`${path}: is not among the files of the manifest`);
  const buffer = await (await fetched(root, path)).arrayBuffer();
  const found = await sha256(buffer);
  if (found === record.sha256) return buffer;
  const isPointer = new TextDecoder().decode(buffer.slice(0, 23)) === 'version https://git-lfs';
  throw new Error(
    isPointer
      ? `${path}: is a Git LFS pointer, not the file itself; \`git lfs pull\` fetches that`
      : `${path}: is not the file that was packaged: SHA-256 ${found}, not ${record.sha256}`,
  );
}

/**
 * SHA-256 of a file, as 64 hexadecimal digits.
 * @param {ArrayBuffer} buffer The file.
 * @returns {Promise<string>}
 */
export async function sha256(buffer) {
  // Pages have `subtle` on HTTPS and localhost alone.
  const subtle = globalThis.crypto?.subtle;
  const sum = subtle ? new Uint8Array(await subtle.digest('SHA-256', buffer)) : sha256Of(new Uint8Array(buffer));
  return Array.from(sum, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The 32 bytes of SHA-256 (FIPS 180-4), for pages that are served by HTTP. */
export function sha256Of(bytes) {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime)) primes.push(n);
  const fraction = (root) => ((root % 1) * 2 ** 32) >>> 0;
  const factors = Uint32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
  const state = Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const turned = (word, places) => (word >>> places) | (word << (32 - places));
  const words = new Uint32Array(64);
  const block = (view, at) => {
    for (let i = 0; i < 16; i += 1) words[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const [x, y] = [words[i - 15], words[i - 2]];
      words[i] = words[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3))
        + words[i - 7] + (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + factors[i] + words[i]) | 0;
      const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
  };
  const whole = bytes.length - (bytes.length % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < whole; at += 64) block(view, at);
  const rest = bytes.subarray(whole);
  const end = new Uint8Array(rest.length < 56 ? 64 : 128);
  end.set(rest);
  end[rest.length] = 0x80;
  const endView = new DataView(end.buffer);
  endView.setBigUint64(end.length - 8, 8n * BigInt(bytes.length));
  for (let at = 0; at < end.length; at += 64) block(endView, at);
  const sum = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => sum.setUint32(4 * i, word));
  return new Uint8Array(sum.buffer);
}

/**
 * The execution provider that a bundle is made for.
 * @param {string | URL} bundle URL of the bundle's folder, or of a further build's in it; may be relative to the page.
 * @returns {Promise<string>} `wasm` or `webgpu`.
 */
export async function providerOf(bundle) {
  const { manifest } = await manifestIn(bundle);
  return manifest.target.profile === 'web-webgpu' ? 'webgpu' : 'wasm';
}

/**
 * Opens a bundle's model, which has to be the one that was packaged.
 * @param {object} ort The module onnxruntime-web, or in Node.js onnxruntime-node.
 * @param {string | URL} bundle URL of the bundle's folder, or of a further build's in it; may be relative to the page.
 * @param {string} provider `wasm` or `webgpu`; `cpu` with onnxruntime-node.
 * @returns {Promise<{root: URL, manifest: object, session: object}>} With the bundle's own folder.
 */
export async function openBundle(ort, bundle, provider = 'wasm') {
  const { root, manifest } = await manifestIn(bundle);
  const model = await packaged(root, manifest, manifest.model.main);
  return { root, manifest, session: await ort.InferenceSession.create(model, { executionProviders: [provider] }) };
}

const RELEASES = 'https://cdn.jsdelivr.net/npm/onnxruntime-web';

/**
 * Where the check's page takes onnxruntime-web from. Whoever writes a link to the page chooses `asked`, and a module runs
 * with the rights of the page: it comes from the page's own server, or is a release of onnxruntime-web.
 * @param {string | null} asked The module's URL; null for the newest release.
 * @param {string} page The page's own URL.
 * @param {string} build The module's file in a release.
 * @returns {string} The module's URL.
 */
export function libraryUrl(asked, page, build) {
  const url = new URL(asked ?? `${RELEASES}/dist/${build}`, page);
  const own = /^https?:$/.test(url.protocol) && url.origin === new URL(page).origin;
  if (own || url.href.startsWith(`${RELEASES}/`) || url.href.startsWith(`${RELEASES}@`)) return url.href;
  throw new Error(`ort=${asked} is neither on the server of this page nor a release of onnxruntime-web on jsDelivr`);
}

/**
 * Runs all golden samples. A model or golden sample that is not the file that was packaged is an error.
 * @param {object} ort The module onnxruntime-web, or in Node.js onnxruntime-node.
 * @param {string | URL} bundle URL of the bundle's folder, or of a further build's in it; may be relative to the page.
 * @param {string} provider `wasm` or `webgpu`; `cpu` with onnxruntime-node.
 * @returns {Promise<{passed: boolean, bundle: string, executed_by: string, outputs: object[]}>} The figures of each output.
 */
export async function runGoldenCheck(ort, bundle, provider = 'wasm') {
  const { root, manifest, session } = await openBundle(ort, bundle, provider);
  const tallies = manifest.golden.outputs.map((output) => new OutputTally(output));
  const load = async (sample, kind, position) =>
    parseNpy(await packaged(root, manifest, `golden/${sample}/${kind}/${position}.npy`));
  for (let sample = 0; sample < manifest.golden.samples; sample += 1) {
    const feeds = {};
    for (const [position, input] of manifest.inputs.entries()) {
      const { type, data, dims } = await load(sample, 'inputs', position);
      feeds[input.native_name] = new ort.Tensor(type, data, dims);
    }
    const results = await session.run(feeds);
    for (const [position, output] of manifest.outputs.entries()) {
      // What the output is held against: the original's, or what the build computed when it was packaged.
      const held = manifest.golden.outputs[position].folder ?? 'outputs';
      tallies[position].add(await load(sample, held, position), results[output.native_name]);
    }
  }
  const outputs = tallies.map((tally) => tally.record);
  const { web, node } = ort.env.versions ?? {};
  const runtime = node ? `onnxruntime-node ${node}` : `onnxruntime-web ${web ?? 'unknown version'}`;
  return {
    passed: outputs.every((output) => output.passed),
    bundle: manifest.name,
    executed_by: `${runtime}, ${provider}, ${manifest.model.main}`,
    against: manifest.golden.outputs.every(({ folder = 'outputs' }) => folder === 'outputs')
      ? 'the original model computes'
      : 'the model computed when it was packaged',
    outputs,
  };
}
