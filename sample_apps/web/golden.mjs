// Shows on a page whether this browser computes a bundle's golden results.

import { runGoldenCheck } from '/bundle/check.mjs';

/**
 * Runs a bundle's golden check.
 * @param {object} ort onnxruntime-web.
 * @param {URL} bundle The bundle's folder, with a slash at its end.
 * @param {HTMLElement} place Where the verdict is written; its class becomes `passed` or `failed`.
 */
export async function showGoldenCheck(ort, bundle, place) {
  const result = await runGoldenCheck(ort, bundle);
  const worst = Math.min(...result.outputs.map(({ sqnr_db: db }) => (typeof db === 'number' ? db : Infinity)));
  const figure = Number.isFinite(worst) ? `, ${worst.toFixed(1)} dB` : '';
  place.textContent = result.passed
    ? `Golden check passed${figure}: this browser computes what ${result.against}.`
    : `Golden check not passed${figure}: do not trust the answers on this device.`;
  place.className = result.passed ? 'passed' : 'failed';
  place.title = result.executed_by;
}
