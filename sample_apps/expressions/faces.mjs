// Finds faces with YuNet: decodes what it gives for the cells of three grids, as OpenCV's FaceDetectorYN does.

import { modelInput } from '/shared/preprocess.mjs';

const STRIDES = [8, 16, 32];
const LEAST_SCORE = 0.7;
const MOST_OVERLAP = 0.3;

/** The picture in the size that the network takes: shrunk to fit, in the left upper corner, the rest black. */
function fitted(picture, [height, width]) {
  const factor = Math.min(width / picture.width, height / picture.height);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, 0, 0, Math.round(picture.width * factor), Math.round(picture.height * factor));
  return { pixels: context.getImageData(0, 0, width, height), factor };
}

/** What a grid's cells hold: boxes in the network's pixels, with their scores. */
function* boxesOf(stride, columns, { cls, obj, bbox }) {
  for (let cell = 0; cell < cls.length; cell += 1) {
    const score = Math.sqrt(cls[cell] * obj[cell]);
    if (score < LEAST_SCORE) continue;
    const [x, y, w, h] = bbox.subarray(4 * cell, 4 * cell + 4);
    const [width, height] = [Math.exp(w) * stride, Math.exp(h) * stride];
    const left = ((cell % columns) + x) * stride - width / 2;
    const top = (Math.floor(cell / columns) + y) * stride - height / 2;
    yield { left, top, width, height, score };
  }
}

/** Intersection over union. */
function overlap(one, other) {
  const across = Math.min(one.left + one.width, other.left + other.width) - Math.max(one.left, other.left);
  const down = Math.min(one.top + one.height, other.top + other.height) - Math.max(one.top, other.top);
  if (across <= 0 || down <= 0) return 0;
  return (across * down) / (one.width * one.height + other.width * other.height - across * down);
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
  const native = Object.fromEntries(manifest.outputs.map((output) => [output.name, output.native_name]));
  const found = STRIDES.flatMap((stride) => {
    const parts = ['cls', 'obj', 'bbox'].map((part) => [part, outputs[native[`${part}_${stride}`]].data]);
    return [...boxesOf(stride, pixels.width / stride, Object.fromEntries(parts))];
  });
  found.sort((one, other) => other.score - one.score);
  const kept = [];
  for (const box of found) {
    if (kept.every((better) => overlap(box, better) <= MOST_OVERLAP)) kept.push(box);
  }
  return kept.map(({ score, ...box }) => {
    const inPicture = Object.fromEntries(Object.entries(box).map(([side, value]) => [side, value / factor]));
    return { ...inPicture, score };
  });
}
