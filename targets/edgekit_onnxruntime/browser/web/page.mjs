// The page of EdgeKit's browser device: takes work from the server that served it and gives the answers back.
// Messages are what browser_wire.py describes.

const ELEMENTS = {
  float16: globalThis.Float16Array ?? Uint16Array, // onnxruntime-web takes the bits where the browser lacks the type
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};
const LENGTH_BYTES = 4;

function encode(record, tensors = []) {
  const arrays = tensors.map(([name, type, dims, bytes]) => ({ name, type, dims, bytes: bytes.byteLength }));
  const text = new TextEncoder().encode(JSON.stringify({ ...record, arrays }));
  const length = new DataView(new ArrayBuffer(LENGTH_BYTES));
  length.setUint32(0, text.byteLength, true);
  return new Blob([length, text, ...tensors.map(([, , , bytes]) => bytes)]);
}

function decode(buffer, ort) {
  const length = new DataView(buffer).getUint32(0, true);
  let offset = LENGTH_BYTES + length;
  const record = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, LENGTH_BYTES, length)));
  const feeds = {};
  for (const { name, type, dims, bytes } of record.arrays) {
    const part = buffer.slice(offset, offset + bytes);
    const elements = type === 'string' ? JSON.parse(new TextDecoder().decode(part)) : new ELEMENTS[type](part);
    feeds[name] = new ort.Tensor(type, elements, dims);
    offset += bytes;
  }
  return { record, feeds };
}

/** Name, type, shape and bytes of a result. */
async function described(name, tensor) {
  const data = await tensor.getData();
  const bytes =
    tensor.type === 'string'
      ? new TextEncoder().encode(JSON.stringify(data))
      : new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice(); // shared memory is in no Blob
  return [name, tensor.type, [...tensor.dims], bytes];
}

/** Counts what is given to the GPU, so that a model that never got there is found out. */
let dispatches = 0;
if (globalThis.GPUComputePassEncoder) {
  for (const method of ['dispatchWorkgroups', 'dispatchWorkgroupsIndirect']) {
    const original = GPUComputePassEncoder.prototype[method];
    GPUComputePassEncoder.prototype[method] = function counted(...sizes) {
      dispatches += 1;
      return original.apply(this, sizes);
    };
  }
}

/** The GPU as the browser names it; null where there is none. */
async function findAdapter() {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return null;
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter.info;
  return { name: description || [vendor, architecture, device].filter(Boolean).join(' '), software: isFallbackAdapter };
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

const tasks = {
  /** Loads onnxruntime-web; says which it is, and what it runs on. */
  async start(state, { module, threads, provider }) {
    const adapter = provider === 'webgpu' ? await findAdapter() : null;
    if (provider === 'webgpu' && adapter === null) return { record: { adapter, isolated: globalThis.crossOriginIsolated } };
    state.ort = await import(module);
    state.ort.env.wasm.numThreads = threads;
    state.provider = provider;
    return { record: { adapter, isolated: globalThis.crossOriginIsolated, version: state.ort.env.versions.web } };
  },

  /** Opens a model in place of the one before. */
  async open(state, { model, data }) {
    await state.session?.release();
    state.session = undefined;
    const start = performance.now();
    const externalData = await Promise.all(data.map(async ({ path, url }) => ({ path, data: await fetched(url) })));
    const options = { executionProviders: [state.provider], graphOptimizationLevel: 'all', externalData };
    state.session = await state.ort.InferenceSession.create(await fetched(model), options);
    return { record: { load_ms: performance.now() - start } };
  },

  async run(state, _, feeds) {
    dispatches = 0;
    const results = await state.session.run(feeds);
    const record = { dispatches };
    return { record, tensors: await Promise.all(Object.entries(results).map(([name, value]) => described(name, value))) };
  },

  async time(state, { runs, warm_up: warmUp }, feeds) {
    const milliseconds = [];
    for (let count = 0; count < warmUp + runs; count += 1) {
      dispatches = 0;
      const start = performance.now();
      await state.session.run(feeds);
      if (count >= warmUp) milliseconds.push(performance.now() - start);
    }
    return { record: { milliseconds, dispatches } };
  },
};

function text(error) {
  return error instanceof Error ? error.message : String(error);
}

async function work() {
  const state = { ort: { Tensor: undefined } };
  let answer = null;
  for (;;) {
    const response = await fetch('../work', { method: 'POST', body: answer });
    if (response.status !== 200) return;
    try {
      const { record, feeds } = decode(await response.arrayBuffer(), state.ort);
      const { record: result, tensors } = await tasks[record.task](state, record, feeds);
      answer = encode(result, tensors);
    } catch (error) {
      answer = encode({ error: text(error) });
    }
  }
}

fetch('../alive').catch(() => {});
work();
