import * as ort from '/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
import { openBundle } from '/bundle/check.mjs';
import { digitPicture } from './digit.mjs';
import { showGoldenCheck } from './golden.mjs';
import { decisionOf, modelInput } from './preprocess.mjs';

const BUNDLE = new URL('/bundle/', location.href);
const PEN = 22;

const drawing = document.getElementById('drawing');
const context = drawing.getContext('2d', { willReadFrequently: true });
const answer = document.getElementById('answer');
const bars = document.getElementById('bars');
const check = document.getElementById('check');

function clear() {
  context.fillStyle = 'black';
  context.fillRect(0, 0, drawing.width, drawing.height);
  answer.textContent = 'Draw a digit.';
  answer.className = '';
  for (const bar of bars.querySelectorAll('meter')) bar.value = 0;
}

function showClasses(labels) {
  for (const label of labels) {
    const item = document.createElement('li');
    const name = document.createElement('label');
    const bar = document.createElement('meter');
    name.textContent = label;
    name.append(bar);
    item.append(name);
    bars.append(item);
  }
}

/** Classifies the drawing, and shows the result. */
async function classify({ manifest, session }, labels) {
  const [feature] = manifest.inputs;
  const picture = digitPicture(drawing, manifest.preprocessing.size[0]);
  if (!picture) return;
  const { type, data, dims } = modelInput(picture, manifest.preprocessing, feature);
  const start = performance.now();
  const results = await session.run({ [feature.native_name]: new ort.Tensor(type, data, dims) });
  const milliseconds = performance.now() - start;
  const { best, probabilities } = decisionOf(results, manifest);
  const percent = probabilities ? `${(100 * probabilities[best]).toFixed(1)} %, ` : '';
  answer.textContent = `This is a ${labels[best] ?? best} (${percent}${milliseconds.toFixed(1)} ms).`;
  bars.querySelectorAll('meter').forEach((bar, position) => {
    bar.value = probabilities ? probabilities[position] : Number(position === best);
  });
}

/** Draws strokes with the pointer; `done` is called when a stroke ends. */
function letDraw(done) {
  let last = null;
  const position = (event) => {
    const { left, top, width } = drawing.getBoundingClientRect();
    return [(event.clientX - left), (event.clientY - top)].map((offset) => (offset * drawing.width) / width);
  };
  drawing.addEventListener('pointerdown', (event) => {
    drawing.setPointerCapture(event.pointerId);
    last = position(event);
  });
  drawing.addEventListener('pointermove', (event) => {
    if (!last) return;
    const next = position(event);
    context.beginPath();
    context.moveTo(...last);
    context.lineTo(...next);
    context.stroke();
    last = next;
  });
  drawing.addEventListener('pointerup', () => {
    last = null;
    done();
  });
}

/** Draws a chosen picture file (white on black), scaled to the canvas. */
async function drawFile(file) {
  const picture = await createImageBitmap(file);
  clear();
  const factor = Math.min(drawing.width / picture.width, drawing.height / picture.height);
  const [width, height] = [picture.width * factor, picture.height * factor];
  context.drawImage(picture, (drawing.width - width) / 2, (drawing.height - height) / 2, width, height);
}

async function main() {
  context.strokeStyle = 'white';
  context.lineWidth = PEN;
  context.lineCap = 'round';
  const opened = await openBundle(ort, BUNDLE);
  const classes = opened.manifest.outputs[0].shape.at(-1);
  const labels = opened.manifest.labels ?? Array.from({ length: classes }, (_, index) => String(index));
  showClasses(labels);
  clear();
  letDraw(() => classify(opened, labels));
  document.getElementById('clear').addEventListener('click', clear);
  document.getElementById('file').addEventListener('change', ({ target }) => {
    if (target.files.length) drawFile(target.files[0]).then(() => classify(opened, labels)).catch(complain);
  });
  await showGoldenCheck(ort, BUNDLE, document.getElementById('check'));
}

function complain(error) {
  answer.textContent = `The page cannot run: ${error.message}`;
  answer.className = 'failed';
}

main().catch(complain);
