// The data of the page: JSON as experiments/report_data.h makes it, with arrays of numbers in base64.

function unpackBytes(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return new DataView(bytes.buffer);
}

function unpackFloats(text) {
  const view = unpackBytes(text);
  return Float64Array.from({length: view.byteLength / 4}, (_, i) => view.getFloat32(4 * i, true));
}

// experiments/packed_numbers.h: NaN where there is none, Infinity for what is not finite.
function valueOfLog16(code) {
  if (code === 0) return NaN;
  if (code === 1) return 0;
  return code === 65535 ? Infinity : 2 ** ((code - 2) / 235 - 150);
}

function unpackLog16(text) {
  const view = unpackBytes(text);
  return Float64Array.from({length: view.byteLength / 2}, (_, i) => valueOfLog16(view.getUint16(2 * i, true)));
}

function unpackColumn(column) {
  const mean = unpackFloats(column.mean);
  return {mean, least: column.least ? unpackFloats(column.least) : mean, greatest: column.greatest ? unpackFloats(column.greatest) : mean};
}

function unpackLog(log) {
  const out = {...log};
  if (log.train) {
    const {loss, lr, grad_norm, step, tokens} = log.train;
    out.train = {...log.train, step: unpackFloats(step), tokens: unpackFloats(tokens), loss: unpackColumn(loss), lr: unpackColumn(lr),
      grad_norm: unpackColumn(grad_norm)};
  }
  if (log.layers) {
    out.layers = {...log.layers, step: unpackFloats(log.layers.step), ratio: unpackLog16(log.layers.ratio)};
    for (const quantity of ["grad_norm", "update_ratio", "param_norm"]) {
      const {greatest, least} = log.layers[quantity];
      const values = unpackLog16(greatest);
      out.layers[quantity] = {greatest: values, least: least ? unpackLog16(least) : values};
    }
  }
  if (log.residual) {
    out.residual = {...log.residual, step: unpackFloats(log.residual.step), grad_norm: unpackFloats(log.residual.grad_norm)};
  }
  if (log.attention) {
    const {step, entropy, max_logit, course} = log.attention;
    out.attention = {...log.attention, step: unpackFloats(step), entropy: unpackFloats(entropy), max_logit: unpackFloats(max_logit),
      course: {...course, step: unpackFloats(course.step), mean_entropy: unpackColumn(course.mean_entropy),
        greatest_logit: unpackColumn(course.greatest_logit)}};
  }
  if (log.by_position) out.by_position = {...log.by_position, loss: unpackFloats(log.by_position.loss)};
  return out;
}

function unpackReport(json) {
  if (json.schema !== "ropewalk-report" || json.version !== 1) throw new Error("this page cannot read such data");
  return {...json, runs: json.runs.map((run) => ({...run, log: run.log ? unpackLog(run.log) : null}))};
}

// "1.234", "0.00123", "1.2e-7", "12,300": four significant digits.
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return d3.format(".3~e")(value);
  return size >= 1e4 ? d3.format(",.0f")(value) : d3.format(".4~r")(value);
}
