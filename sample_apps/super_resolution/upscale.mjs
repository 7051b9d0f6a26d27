// Enlarges a picture of any size with a network that takes tiles of one size.

import { modelInput } from '/shared/preprocess.mjs';

// A pixel depends on pixels at most this far away: 2 + 1 + 1 by the convolutions, and 1 by the one after enlarging.
const REACH = 5;

/**
 * Tiles along one axis that together give the network's result for the whole picture: where a tile begins, and which of
 * its pixels are kept. The outermost tiles end at the picture's borders, because the network pads with zeros.
 * @param {number} length Length of the picture, at least `tile`.
 * @param {number} tile Length of the network's input.
 * @returns {{start: number, from: number, to: number}[]} `from` and `to` count from the picture's border.
 */
export function spans(length, tile) {
  const found = [];
  for (let from = 0; from < length;) {
    const start = Math.min(Math.max(from - REACH, 0), length - tile);
    const to = start + tile === length ? length : start + tile - REACH;
    found.push({ start, from, to });
    from = to;
  }
  return found;
}

/** The picture on a canvas of at least `tile` × `tile` pixels, extended by repeating its last column and row. */
function padded(picture, tile) {
  const { width, height } = picture;
  const canvas = new OffscreenCanvas(Math.max(width, tile), Math.max(height, tile));
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.putImageData(picture, 0, 0);
  for (let x = width; x < tile; x += 1) context.putImageData(picture, x - width + 1, 0, width - 1, 0, 1, height);
  const filled = context.getImageData(0, height - 1, canvas.width, 1);
  for (let y = height; y < tile; y += 1) context.putImageData(filled, 0, y);
  return context;
}

/** A tile of the model's output as opaque pixels, by the inverse of the preprocessing. */
function pixels({ data, dims }, { scale, mean, std }) {
  const [height, width] = dims.slice(-2);
  const picture = new ImageData(width, height);
  const plane = width * height;
  for (let position = 0; position < plane; position += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      const value = data[channel * plane + position];
      picture.data[4 * position + channel] = (value * std[channel % std.length] + mean[channel % mean.length]) / scale;
    }
    picture.data[4 * position + 3] = 255;
  }
  return picture;
}

/**
 * @param {object} ort onnxruntime-web.
 * @param {{manifest: object, session: object}} opened The result of `openBundle`.
 * @param {ImageData} picture An opaque picture.
 * @param {(done: number, all: number) => void} progress Called before each tile.
 * @returns {Promise<ImageData>} The enlarged picture.
 */
export async function upscale(ort, { manifest, session }, picture, progress) {
  const [feature] = manifest.inputs;
  const [result] = manifest.outputs;
  const [rows, columns] = manifest.preprocessing.size;
  const factor = result.shape.at(-1) / columns;
  const source = padded(picture, Math.max(rows, columns));
  const across = spans(source.canvas.width, columns);
  const down = spans(source.canvas.height, rows);
  const canvas = new OffscreenCanvas(picture.width * factor, picture.height * factor);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  let done = 0;
  for (const y of down) {
    for (const x of across) {
      progress(done, down.length * across.length);
      await new Promise((resolve) => { setTimeout(resolve); });  // lets the page show the progress
      const tile = source.getImageData(x.start, y.start, columns, rows);
      const { type, data, dims } = modelInput(tile, manifest.preprocessing, feature);
      const outputs = await session.run({ [feature.native_name]: new ort.Tensor(type, data, dims) });
      const enlarged = pixels(outputs[result.native_name], manifest.preprocessing);
      context.putImageData(
        enlarged, x.start * factor, y.start * factor,
        (x.from - x.start) * factor, (y.from - y.start) * factor, (x.to - x.from) * factor, (y.to - y.from) * factor,
      );
      done += 1;
    }
  }
  return context.getImageData(0, 0, canvas.width, canvas.height);
}
