// Finds faces with YuNet, whose bundle returns one row per face.

import { modelInput } from '/shared/preprocess.mjs';

const LEAST_SCORE = 0.7;

/** The picture in the size of the network's input: scaled to fit, in the upper left corner, the rest black. */
function fitted(picture, [height, width]) {
  const factor = Math.min(width / picture.width, height / picture.height);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, 0, 0, Math.round(picture.width * factor), Math.round(picture.height * factor));
  return { pixels: context.getImageData(0, 0, width, height), factor };
}

/**
 * @param {object} ort onnxruntime-web.
 * @param {{manifest: object, session: object}} opened The bundle of YuNet.
 * @param {HTMLCanvasElement} picture
 * @returns {Promise<{left: number, top: number, width: number, height: number, score: number}[]>} In the picture's pixels.
 */
export async function findFaces(ort, { manifest, session }, picture) {
  const [feature] = manifest.inputs;
  const { pixels, factor } = fitted(picture, manifest.preprocessing.size);
  const { type, data, dims } = modelInput(pixels, manifest.preprocessing, feature);
  const outputs = await session.run({ [feature.native_name]: new ort.Tensor(type, data, dims) });
  const detections = manifest.outputs.find((output) => output.name === 'detections');
  const columns = detections.shape.at(-1);
  const found = outputs[detections.native_name].data;
  const faces = [];
  for (let row = 0; row < found.length; row += columns) {
    const [left, top, right, bottom, score] = found.subarray(row, row + columns);
    if (score < LEAST_SCORE) continue;
    const [x, y, width, height] = [left, top, right - left, bottom - top].map((side) => side / factor);
    faces.push({ left: x, top: y, width, height, score });
  }
  return faces;
}
