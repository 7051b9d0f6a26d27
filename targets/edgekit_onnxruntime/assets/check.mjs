// Runs a bundle's golden samples with onnxruntime-web and compares the outputs with the golden ones.
// Ships in bundles for the web; needs onnxruntime-web (or onnxruntime-node), nothing of EdgeKit. check.html beside it is
// its page.

const TYPES = {
  '<f4': ['float32', Float32Array],
  '<f8': ['float64', Float64Array],
  '<f2': ['float16', globalThis.Float16Array],
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
 *     are strings), shape.
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
    throw new Error(`this browser cannot read a .npy file with the header ${header.trim()}`);
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
    this.elements += golden.data.length;
    for (let i = 0; i < golden.data.length; i += 1) {
      const want = golden.data[i];
      const got = actual.data[i];
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
async function fetched(bundle, name) {
  const folder = String(bundle);
  const url = new URL(name, folder.endsWith('/') ? folder : `${folder}/`);
  if (url.protocol === 'file:' && globalThis.process?.versions?.node) {
    const files = 'node:fs/promises'; // no literal in import(): bundlers for browsers would look for it
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ files);
    return new Response(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

/**
 * The execution provider that a bundle is made for.
 * @param {string | URL} bundle URL of the bundle's folder.
 * @returns {Promise<string>} `wasm` or `webgpu`.
 */
export async function providerOf(bundle) {
  const { target } = await (await fetched(bundle, 'manifest.json')).json();
  return target.profile === 'web-webgpu' ? 'webgpu' : 'wasm';
}

/**
 * Opens a bundle's model.
 * @param {object} ort The module onnxruntime-web, or in Node.js onnxruntime-node.
 * @param {string | URL} bundle URL of the bundle's folder.
 * @param {string} provider `wasm` or `webgpu`; `cpu` with onnxruntime-node.
 * @returns {Promise<{manifest: object, session: object}>}
 */
export async function openBundle(ort, bundle, provider = 'wasm') {
  const manifest = await (await fetched(bundle, 'manifest.json')).json();
  const model = await (await fetched(bundle, manifest.model.main)).arrayBuffer();
  return { manifest, session: await ort.InferenceSession.create(model, { executionProviders: [provider] }) };
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
 * Runs all golden samples.
 * @param {object} ort The module onnxruntime-web, or in Node.js onnxruntime-node.
 * @param {string | URL} bundle URL of the bundle's folder.
 * @param {string} provider `wasm` or `webgpu`; `cpu` with onnxruntime-node.
 * @returns {Promise<{passed: boolean, executed_by: string, outputs: object[]}>} The figures of each output.
 */
export async function runGoldenCheck(ort, bundle, provider = 'wasm') {
  const { manifest, session } = await openBundle(ort, bundle, provider);
  const tallies = manifest.golden.outputs.map((output) => new OutputTally(output));
  const load = async (sample, kind, position) =>
    parseNpy(await (await fetched(bundle, `golden/${sample}/${kind}/${position}.npy`)).arrayBuffer());
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
    executed_by: `${runtime}, ${provider}, ${manifest.model.main}`,
    against: manifest.golden.outputs.every(({ folder = 'outputs' }) => folder === 'outputs')
      ? 'the original model computes'
      : 'the model computed when it was packaged',
    outputs,
  };
}
