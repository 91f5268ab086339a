// What the log's group `layers` holds, as heat maps; the ratio of the last layer to the first; the residual stream.

const kQuantities = {grad_norm: "gradient norm", update_ratio: "update over parameter norm", param_norm: "parameter norm"};

// The runs to begin with: one that diverged beside one that did not, else the first of two variants.
function firstRuns(report, has) {
  const able = report.runs.map((run, index) => ({run, index})).filter(({run}) => run.log && has(run.log));
  if (able.length === 0) return [];
  const bad = able.find(({run}) => run.diverged);
  const good = able.find(({run}) => !run.diverged) || able[0];
  const other = bad && bad !== good ? bad : able.find(({run}) => run.variant !== good.run.variant);
  return other ? [good.index, other.index] : [good.index];
}

function runOptions(report, has) {
  return report.runs.map((run, value) => ({value, label: run.id, run})).filter(({run}) => run.log && has(run.log));
}

function layersSpec(report, index, others, state) {
  const run = report.runs[index];
  if (!run) return {empty: ""};
  const log = run.log;
  const kind = log && log.layers ? log.kinds.indexOf(state.kind) : -1;
  if (kind < 0) return {empty: `The log of ${run.id} has no ${state.kind}.`};
  const kinds = log.kinds.length;
  const {width, merged, step} = log.layers;
  const cellsOf = (someLog, extreme) => {
    const k = someLog.kinds.indexOf(state.kind);
    if (k < 0) return [];
    return someLog.layers[state.quantity][extreme].filter((_, i) => i % someLog.kinds.length === k);
  };
  const shownLogs = others.map((i) => report.runs[i].log).filter((l) => l && l.layers);
  const {domain, cut} = logDomain(shownLogs.map((l) => cellsOf(l, state.extreme)));
  const at = (extreme) => (column, row) => log.layers[state.quantity][extreme][(column * log.n_layers + row) * kinds + kind];
  const value = at(state.extreme);
  const label = kQuantities[state.quantity];
  return {
    title: `${label}, ${state.kind}: ${run.id}`,
    columns: step.length, rows: log.n_layers, width, value,
    span: d3.max(shownLogs, ({layers}) => layers.step.length * layers.width),
    detail: (column, row) => (merged ? `${formatNumber(at("least")(column, row))} to ${formatNumber(at("greatest")(column, row))}`
      : formatNumber(value(column, row))),
    columnName: "step", rowName: "layer",
    columnLabel: (k) => (merged ? `${k * width} to ${Math.max(k * width, step[k])}` : String(step[k] < 0 ? k * width : step[k])),
    rowLabel: String,
    colour: {scale: "log", domain, label}, xTicks: null, xText: tickFormat([0, step.length * width]),
    caption: (merged ? `Each cell holds the ${state.extreme} of the logged rows of ${width} steps. ` : "Each cell is a logged row. ")
      + "Layer 0 is next to the embedding. Colours are logarithmic and those of both maps; red is not finite."
      + (cut ? " Beyond its ends the scale goes on in the last colour." : "")
      + (run.diverged ? ` This run diverged at ${run.diverged.text}.` : ""),
  };
}

function ratioSpec(report, state) {
  const pointsOf = (run) => {
    const log = run.log;
    if (!log || !log.layers) return null;
    const kind = log.kinds.indexOf(state.kind);
    if (kind < 0) return null;
    return Array.from(log.layers.step, (step, k) => {
      const y = log.layers.ratio[k * log.kinds.length + kind];
      return {x: step < 0 ? NaN : step, y, low: y, high: y};
    });
  };
  const merged = report.runs.some((run) => run.log && run.log.layers && run.log.layers.merged);
  return {
    title: `gradient norm, last layer over first: ${state.kind}`,
    x: {name: "step", label: "step", scale: "linear"}, y: {unit: "", log: state.ratioLog},
    series: seriesByVariant(report, pointsOf),
    caption: `${merged ? "Each point is the geometric mean of merged rows. " : ""}Above 1 the last layer gets the greater gradients. Line: mean over `
      + "seeds; band: least to greatest of them.",
  };
}

function residualSpec(report, bucket) {
  const pointsOf = (run) => {
    const residual = run.log && run.log.residual;
    if (!residual || !(residual.step[bucket] >= 0)) return null;
    const depths = run.log.n_layers + 1;
    return d3.range(depths).map((depth) => {
      const y = residual.grad_norm[bucket * depths + depth];
      return {x: depth, y, low: y, high: y};
    });
  };
  return {
    title: "gradient norm at the residual stream by depth",
    x: {name: "depth", label: "depth (0 enters the first block)", scale: "linear", format: d3.format("~d"),
      ticks: d3.range((d3.max(report.runs, (run) => (run.log ? run.log.n_layers : 0)) || 0) + 1)},
    y: {unit: "", log: true},
    series: seriesByVariant(report, pointsOf), dots: true,
    caption: "As logged at this step. Line: mean over the seeds that were logged there; band: least to greatest of them.",
  };
}

function gradientsSection(host, report) {
  const hasLayers = (log) => log.layers;
  const options = runOptions(report, hasLayers);
  if (options.length === 0) {
    host.append(note("No log has gradients by layer (log.layers_every)."));
  } else {
    const kinds = Array.from(new Set(options.flatMap(({run}) => run.log.kinds)));
    const first = firstRuns(report, hasLayers);
    const state = kept("gradients", {quantity: "grad_norm", kind: kinds.includes("block") ? "block" : kinds[0], extreme: "greatest",
      ratioLog: true, shown: [first[0], first.length > 1 ? first[1] : "none"]});
    const shown = state.shown;
    const draws = [];
    const redraw = (change) => {
      Object.assign(state, change);
      for (const draw of draws) draw();
    };
    const controls = element("div", {class: "controls"},
      select("quantity", Object.entries(kQuantities).map(([value, label]) => ({value, label})), state.quantity, (quantity) => redraw({quantity})),
      select("module", kinds.map((value) => ({value, label: value})), state.kind, (kind) => redraw({kind})));
    if (options.some(({run}) => run.log.layers.merged)) {
      controls.append(choice("cells show the", ["greatest", "least"].map((value) => ({value, label: value})), state.extreme, (extreme) => redraw({extreme})));
    }
    host.append(controls);
    const row = element("div", {class: "row two"});
    host.append(row);
    draws.push(...heatMapPair(row, report, "layers", options, shown, () => redraw({}), (run, both) => layersSpec(report, run, both, state)));
    const lower = element("div", {class: "row two", id: "ratio-row"});
    host.append(variantLegend(report), lower);
    const scale = choice("scale", [{value: "linear", label: "linear"}, {value: "log", label: "log"}], state.ratioLog ? "log" : "linear", (value) => redraw({ratioLog: value === "log"}));
    draws.push(lineChart(lower, report, "ratio", [scale], () => ratioSpec(report, state)));
  }
  const withResidual = report.runs.filter((run) => run.log && run.log.residual);
  if (withResidual.length === 0) return;
  const longest = withResidual.reduce((a, b) => (b.log.residual.step.length > a.log.residual.step.length ? b : a)).log.residual;
  const buckets = d3.range(longest.step.length).filter((k) => longest.step[k] >= 0);
  const state = kept("residual", {chosen: 0});
  let draw = () => {};
  const control = slider("step", buckets, Math.min(state.chosen, buckets.length - 1), (k) => d3.format(",")(longest.step[k]), (i) => {
    state.chosen = i;
    draw();
  });
  const place = host.querySelector("#ratio-row") || host;
  draw = lineChart(place, report, "residual", [control], () => residualSpec(report, buckets[Math.min(state.chosen, buckets.length - 1)]));
}
