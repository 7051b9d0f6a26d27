import * as ort from '/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
import { openBundle } from '/bundle/check.mjs';
import { showGoldenCheck } from '/shared/golden.mjs';
import { cutFace, expressionOf } from './expression.mjs';
import { findFaces } from './faces.mjs';

const BUNDLE = new URL('/bundle/', location.href);
const FACES = new URL('/faces-web/', location.href);
const EXAMPLE = new URL('fetched/pictures/astronaut.png', location.href);
const LONGEST = 960;

const element = (id) => document.getElementById(id);
const [answer, picture, list, video, camera] = ['answer', 'picture', 'faces', 'video', 'camera'].map(element);
const context = picture.getContext('2d', { willReadFrequently: true });

/** Resolves when the camera's last frame has been recognized. */
let filming = Promise.resolve();

/** Draws a picture or a frame of the camera, scaled down if a side is longer than LONGEST. */
function draw(source, width, height) {
  const factor = Math.min(1, LONGEST / Math.max(width, height));
  [picture.width, picture.height] = [Math.round(width * factor), Math.round(height * factor)];
  context.imageSmoothingQuality = 'high';
  context.drawImage(source, 0, 0, picture.width, picture.height);
}

/** Draws a box around the face, and on it the label of the expression. */
function mark({ left, top, width, height }, label) {
  const size = Math.max(13, Math.round(picture.width / 36));
  context.lineWidth = Math.max(2, size / 7);
  context.strokeStyle = '#ffd23f';
  context.strokeRect(left, top, width, height);
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  const wide = context.measureText(label).width + size;
  const x = Math.min(Math.max(left - context.lineWidth / 2, 0), picture.width - wide);
  const y = Math.max(top - 1.5 * size, 0);
  context.fillStyle = '#ffd23f';
  context.fillRect(x, y, wide, 1.5 * size);
  context.fillStyle = '#1a1a1a';
  context.fillText(label, x + size / 2, y + 0.78 * size);
}

function bars(labels, probabilities) {
  const shown = document.createElement('dl');
  labels.forEach((label, index) => {
    const [name, value, bar] = ['dt', 'dd', 'meter'].map((tag) => document.createElement(tag));
    name.textContent = label;
    bar.value = probabilities[index];
    bar.title = `${(100 * probabilities[index]).toFixed(1)} %`;
    value.append(bar);
    shown.append(name, value);
  });
  return shown;
}

/** Finds the faces in the drawn picture, and shows where they are and what they express. */
async function recognize({ detector, expressions }) {
  const { labels, preprocessing } = expressions.manifest;
  const start = performance.now();
  const boxes = await findFaces(ort, detector, picture);
  const cuts = boxes.map((box) => cutFace(picture, box, preprocessing.size));
  const found = [];
  for (const cut of cuts) found.push(await expressionOf(ort, expressions, cut));
  const milliseconds = performance.now() - start;
  const names = found.map((probabilities) => labels[probabilities.indexOf(Math.max(...probabilities))]);
  boxes.forEach((box, index) => mark(box, `${names[index]} ${(100 * Math.max(...found[index])).toFixed(0)} %`));
  list.replaceChildren(...cuts.map((cut, index) => {
    const item = document.createElement('li');
    item.append(cut, bars(labels, found[index]));
    return item;
  }));
  const count = `${boxes.length || 'No'} ${boxes.length === 1 ? 'face' : 'faces'}`;
  answer.textContent = `${count}${names.length ? `: ${names.join(', ')}` : ''} (${milliseconds.toFixed(0)} ms).`;
}

async function recognizeFile(opened, file) {
  if (!file) return;
  stopCamera();
  await filming;
  const decoded = await createImageBitmap(file);
  draw(decoded, decoded.width, decoded.height);
  await recognize(opened);
}

function stopCamera() {
  video.srcObject?.getTracks().forEach((track) => track.stop());
  video.srcObject = null;
  camera.textContent = 'Use the camera';
}

/** Recognizes the expressions in one frame of the camera after another, until the camera is stopped. */
async function film(opened) {
  video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'user' } });
  camera.textContent = 'Stop the camera';
  await video.play();
  while (video.srcObject) {
    draw(video, video.videoWidth, video.videoHeight);
    await recognize(opened);
    await new Promise(requestAnimationFrame);
  }
}

async function main() {
  const [detector, expressions] = await Promise.all([FACES, BUNDLE].map((bundle) => openBundle(ort, bundle)));
  const opened = { detector, expressions };
  element('file').addEventListener('change', ({ target }) => recognizeFile(opened, target.files[0]).catch(complain));
  camera.addEventListener('click', () => {
    if (video.srcObject) stopCamera();
    else filming = film(opened).catch(complain);
  });
  const example = await fetch(EXAMPLE);
  if (example.ok) await recognizeFile(opened, await example.blob());
  [element('file').disabled, camera.disabled] = [false, false];
  await showGoldenCheck(ort, BUNDLE, element('check'));
}

function complain(error) {
  stopCamera();
  answer.textContent = `The page cannot run: ${error.message}`;
  answer.className = 'failed';
}

main().catch(complain);
