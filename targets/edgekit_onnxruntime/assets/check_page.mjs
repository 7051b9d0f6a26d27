// The program of check.html, in a file of its own: a Content-Security-Policy may forbid scripts inside of pages.
//
// check.html?provider=wasm&ort=URL: another provider than the bundle's, another copy of onnxruntime-web (a
// module's URL on this server, or of a release on jsDelivr).
import { libraryUrl, providerOf, runGoldenCheck } from './check.mjs';

const parameters = new URLSearchParams(location.search);
const verdict = document.getElementById('verdict');
verdict.textContent = 'Running…';

function cell(row, text, className = '') {
  const td = row.insertCell();
  td.textContent = text;
  td.className = className;
}

async function imported(url) {
  try {
    return await import(url);
  } catch (error) {
    throw new Error(
      `onnxruntime-web cannot be loaded: ${error.message}. Without the internet put its folder dist on this server, and name ` +
      'the module: check.html?ort=/dist/' + url.split('/').at(-1),
    );
  }
}

try {
  const provider = parameters.get('provider') ?? await providerOf(new URL('./', location.href));
  const build = provider === 'wasm' ? 'ort.wasm.min.mjs' : 'ort.webgpu.min.mjs';
  const ort = await imported(libraryUrl(parameters.get('ort'), location.href, build));
  const result = await runGoldenCheck(ort, new URL('./', location.href), provider);
  const body = document.querySelector('tbody');
  for (const output of result.outputs) {
    const row = body.insertRow();
    cell(row, output.name);
    cell(row, output.sqnr_db === null ? '' : output.max_abs_error.toExponential(2), 'figure');
    cell(row, typeof output.sqnr_db === 'number' ? `${output.sqnr_db.toFixed(1)} dB` : output.sqnr_db ?? '', 'figure');
    cell(row, `${(100 * output.mismatch).toFixed(2)} %`, 'figure');
    cell(row, output.passed ? 'ok' : output.problem || 'too far off', output.passed ? 'passed' : 'failed');
  }
  document.title = `EdgeKit: golden check of ${result.bundle}`;
  document.querySelector('h1').textContent = `Golden check of ${result.bundle}`;
  document.querySelector('table').hidden = false;
  document.getElementById('executed').textContent = `Executed by ${result.executed_by}.`;
  verdict.textContent = result.passed ? `This browser computes what ${result.against}.` : 'Not passed.';
  verdict.className = result.passed ? 'passed' : 'failed';
  window.goldenCheck = result; // for programs that drive the page
} catch (error) {
  verdict.textContent = `The check cannot run: ${error.message}`;
  verdict.className = 'failed';
  window.goldenCheck = { passed: false, problem: error.message, outputs: [] };
}
