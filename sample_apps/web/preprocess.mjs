// Converts pixels to a model's input as the bundle's manifest declares: input = (pixel * scale - mean) / std.

/** Luma of a pixel (ITU-R BT.601, in the fixed-point arithmetic that Pillow uses). */
function luma(red, green, blue) {
  return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16;
}

/** The channels of a pixel at offset `at` in RGBA data, in the model's order. */
function channels(rgba, at, color) {
  const [red, green, blue] = rgba.subarray(at, at + 3);
  if (color === 'GRAY') return [luma(red, green, blue)];
  return color === 'BGR' ? [blue, green, red] : [red, green, blue];
}

/**
 * The model's input for one picture that has the input's height and width.
 * @param {ImageData} picture Opaque pixels.
 * @param {object} declared The manifest's `preprocessing`.
 * @param {{dtype: string, shape: number[]}} feature The manifest's input.
 * @returns {{type: string, data: Float32Array | Uint8Array, dims: number[]}} Arguments of an onnxruntime-web tensor.
 */
export function modelInput(picture, declared, feature) {
  const { layout, size: [height, width], color, scale, mean, std, dtype } = declared;
  if (picture.width !== width || picture.height !== height) {
    throw new Error(`the picture has ${picture.width}×${picture.height} pixels, the model wants ${width}×${height}`);
  }
  const Elements = { float32: Float32Array, uint8: Uint8ClampedArray }[dtype];
  if (!Elements) throw new Error(`this page cannot make inputs of ${dtype}`);
  const sizes = { N: 1, C: color === 'GRAY' ? 1 : 3, H: height, W: width };
  const strides = {};
  let stride = 1;
  for (const axis of [...layout].reverse()) {
    strides[axis] = stride;
    stride *= sizes[axis];
  }
  const data = new Elements(stride);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      channels(picture.data, 4 * (y * width + x), color).forEach((value, channel) => {
        const position = y * strides.H + x * strides.W + channel * (strides.C ?? 0);
        data[position] = (value * scale - mean[channel % mean.length]) / std[channel % std.length];
      });
    }
  }
  return { type: dtype, data: dtype === 'uint8' ? new Uint8Array(data.buffer) : data, dims: feature.shape };
}

/**
 * The class that a model predicts.
 * @param {object} results The session's results, by name.
 * @param {object} manifest Names the output for classification and the kind of its numbers.
 * @returns {{best: number, probabilities: number[] | null}} The position of the class among the labels, or -1 if no
 *     class has the model's number; the probability of each class, null if the model's numbers do not say it.
 */
export function decisionOf(results, manifest) {
  const probabilities = probabilitiesOf(results, manifest);
  if (probabilities) return { best: placeOfLargest(probabilities), probabilities };
  const numbers = Array.from(scoresOf(results, manifest), Number);
  if (manifest.classes.scores !== null) return { best: placeOfLargest(numbers), probabilities };
  const classes = manifest.classes.numbers;
  return { best: classes ? classes.indexOf(numbers[0]) : numbers[0], probabilities };
}

/**
 * Probabilities of the classes.
 * @param {object} results The session's results, by name.
 * @param {object} manifest Names the output for classification and the kind of its numbers.
 * @returns {number[] | null} One probability per class; for independent classes they do not add up to 1. Null if the
 *     output is the number of a class, or integers of which no probabilities follow.
 */
export function probabilitiesOf(results, manifest) {
  const kind = manifest.classes ? manifest.classes.scores : 'logits';
  if (kind === null || kind === 'integers') return null;
  const { scale = 1, zero_point: zeroPoint = 0 } = manifest.classes ?? {};
  const scores = Array.from(scoresOf(results, manifest), (score) => (score - zeroPoint) * scale);
  return kind === 'logits' ? softmax(scores) : scores;
}

function placeOfLargest(numbers) {
  return numbers.indexOf(Math.max(...numbers));
}

/** The values of the output for classification: a score for each class, or the number of a class. */
function scoresOf(results, { classes, outputs }) {
  const told = outputs.find(({ name }) => name === classes?.output) ?? outputs[0];
  return results[told.native_name].data;
}

function softmax(scores) {
  const peak = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - peak));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
