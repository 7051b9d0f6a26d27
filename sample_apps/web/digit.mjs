// Converts a drawing to the form of the training digits (MNIST): white on black, the ink scaled into a box of 20/28 of
// the picture's width, the ink's center of mass in the picture's center.

const BOX = 20 / 28;

/** The bounding box of the ink and its center, weighted by brightness; null if there is no ink. */
function inkOf({ data, width, height }) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  let [sum, sumX, sumY] = [0, 0, 0];
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const ink = data[4 * (y * width + x)];
      if (ink === 0) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
      sum += ink;
      sumX += ink * (x + 0.5);
      sumY += ink * (y + 0.5);
    }
  }
  if (!sum) return null;
  return { left, top, width: right + 1 - left, height: bottom + 1 - top, centreX: sumX / sum, centreY: sumY / sum };
}

/**
 * @param {HTMLCanvasElement} drawing White on black.
 * @param {number} size Height and width of the result.
 * @returns {ImageData | null} The picture of the digit; null if nothing is drawn.
 */
export function digitPicture(drawing, size) {
  const ink = inkOf(drawing.getContext('2d').getImageData(0, 0, drawing.width, drawing.height));
  if (!ink) return null;
  const factor = (BOX * size) / Math.max(ink.width, ink.height);
  const canvas = new OffscreenCanvas(size, size);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.fillStyle = 'black';
  context.fillRect(0, 0, size, size);
  context.imageSmoothingQuality = 'high';
  context.drawImage(
    drawing,
    ink.left, ink.top, ink.width, ink.height,
    size / 2 - (ink.centreX - ink.left) * factor, size / 2 - (ink.centreY - ink.top) * factor,
    ink.width * factor, ink.height * factor,
  );
  return context.getImageData(0, 0, size, size);
}
