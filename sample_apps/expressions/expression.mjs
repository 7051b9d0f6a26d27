// Recognizes the expression of a face, with the network of the package fer.

import { modelInput, probabilitiesOf } from '/shared/preprocess.mjs';

const MARGIN = 0.1; // on each side of a face, as a share of its longer side

/**
 * The face as the network's input: a square around the box, in the size of the input.
 * @returns {HTMLCanvasElement}
 */
export function cutFace(picture, { left, top, width, height }, [rows, columns]) {
  const side = Math.max(width, height) * (1 + 2 * MARGIN);
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillRect(0, 0, columns, rows);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, left + (width - side) / 2, top + (height - side) / 2, side, side, 0, 0, columns, rows);
  return canvas;
}

/**
 * @param {HTMLCanvasElement} face The result of `cutFace`.
 * @returns {Promise<number[]>} The probability of each of the manifest's labels.
 */
export async function expressionOf(ort, { manifest, session }, face) {
  const [feature] = manifest.inputs;
  const pixels = face.getContext('2d').getImageData(0, 0, face.width, face.height);
  const { type, data, dims } = modelInput(pixels, manifest.preprocessing, feature);
  const results = await session.run({ [feature.native_name]: new ort.Tensor(type, data, dims) });
  return probabilitiesOf(results, manifest);
}
