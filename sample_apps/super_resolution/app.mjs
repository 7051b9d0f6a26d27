import * as ort from '/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
import { openBundle } from '/bundle/check.mjs';
import { showGoldenCheck } from '/shared/golden.mjs';
import { upscale } from './upscale.mjs';

const BUNDLE = new URL('/bundle/', location.href);
const EXAMPLE = new URL('fetched/small/astronaut.png', location.href);
const LONGEST = 480;

const element = (id) => document.getElementById(id);
const [answer, before, after] = ['answer', 'before', 'after'].map(element);

/** The pixels of a picture file on white, scaled down if a side is longer than LONGEST, which would take too long. */
async function pixelsOf(file) {
  const picture = await createImageBitmap(file);
  const factor = Math.min(1, LONGEST / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * factor), Math.round(picture.height * factor));
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillStyle = 'white';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** Shows the picture enlarged by the browser, in the size of the network's result. */
async function showBefore(picture, factor) {
  [before.width, before.height] = [picture.width * factor, picture.height * factor];
  [after.width, after.height] = [before.width, before.height];
  const context = before.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(await createImageBitmap(picture), 0, 0, before.width, before.height);
  after.getContext('2d').drawImage(before, 0, 0);
  element('comparison').hidden = false;
}

/** Enlarges a file; another one can be chosen afterwards, also where this one is no picture. */
async function enlargeFile(opened, file) {
  if (!file) return;
  element('file').disabled = true;
  element('save').disabled = true;
  answer.className = '';
  try {
    await enlarge(opened, file);
    element('save').disabled = false;
  } finally {
    element('file').disabled = false;
  }
}

async function enlarge(opened, file) {
  const { manifest } = opened;
  const picture = await pixelsOf(file);
  await showBefore(picture, manifest.outputs[0].shape.at(-1) / manifest.preprocessing.size[1]);
  const start = performance.now();
  const result = await upscale(ort, opened, picture, (done, all) => { answer.textContent = `Tile ${done + 1} of ${all}…`; });
  after.getContext('2d').putImageData(result, 0, 0);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  answer.textContent = `${picture.width} × ${picture.height} became ${result.width} × ${result.height} pixels in ${seconds} s.`;
}

function save() {
  const link = document.createElement('a');
  link.download = 'enlarged.png';
  link.href = after.toDataURL('image/png');
  link.click();
}

async function main() {
  const opened = await openBundle(ort, BUNDLE);
  const slider = element('slider');
  slider.addEventListener('input', () => element('comparison').style.setProperty('--split', `${slider.value}%`));
  element('save').addEventListener('click', save);
  element('file').addEventListener('change', ({ target }) => enlargeFile(opened, target.files[0]).catch(complain));
  const example = await fetch(EXAMPLE);
  if (example.ok) await enlargeFile(opened, await example.blob());
  element('file').disabled = false;
  await showGoldenCheck(ort, BUNDLE, element('check'));
}

function complain(error) {
  answer.textContent = `The page cannot run: ${error.message}`;
  answer.className = 'failed';
}

main().catch(complain);
